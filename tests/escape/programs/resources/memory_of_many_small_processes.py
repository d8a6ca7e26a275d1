# expect: out_of_memory
# Each process alone is smaller than the runner might be; together they are too large.
import os


def extract(path):
    for _ in range(4):
        if os.fork() == 0:
            break
    kept = []
    while True:
        kept.append(bytearray(2**18))
