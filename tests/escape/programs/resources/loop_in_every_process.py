# expect: timeout killed_by="unit deadline" | run: deadline_s=0.7
# All processes together have the CPU time of one, the runner among them: its deadline holds nevertheless.
import os


def extract(path):
    for _ in range(5):
        if os.fork() == 0:
            break
    while True:
        pass
