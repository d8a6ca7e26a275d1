# expect: output_limit stdout_bytes=0 stderr_bytes | run: kept_kb=64
import os


def extract(path):
    while True:
        os.write(2, b"e" * 65536)
