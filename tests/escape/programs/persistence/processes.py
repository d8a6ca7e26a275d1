# expect: left_processes units=2 left=1 | run: units=2
# The first unit leaves a process behind; when the second one looks, it is gone.
import os
import time


def extract(path):
    if path == "unit-0" and os.fork() == 0:
        time.sleep(3600)
    seen = {int(name) for name in os.listdir("/proc") if name.isdigit()} - {1, os.getpid()}
    return {"escaped": sorted(seen) if path == "unit-1" else []}
