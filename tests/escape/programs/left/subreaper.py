# expect: left_processes left=1
import ctypes
import os
import time


def extract(path):
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(3600)
        os._exit(0)
    return {"escaped": []}
