# expect: exited_nonzero error=OSError
import os


def extract(path):
    os.close(1)
    print("lost", flush=True)
