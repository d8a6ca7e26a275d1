# expect: timeout killed_by="unit deadline" | run: deadline_s=0.5
import time


def extract(path):
    time.sleep(10**8)
