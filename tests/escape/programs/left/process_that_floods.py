# expect: output_limit | run: deadline_s=4
import os


def extract(path):
    if os.fork() == 0:
        while True:
            os.write(1, b"f" * 65536)
    os.wait()
