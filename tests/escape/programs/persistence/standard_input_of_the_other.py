# expect: completed units=2 | run: units=2 stdin_kb=128
# What one unit has not read is not there for the next.
import os
import sys


def extract(path):
    if path == "unit-0":
        return {"escaped": [] if os.read(0, 10) == b"x" * 10 else ["nothing to read"]}
    size = len(sys.stdin.buffer.read())
    return {"escaped": [] if size == 128 * 1024 else [size]}
