# expect: left_processes left=1
# CLONE_PARENT makes a process that is the runner's child, not the unit's.
import ctypes
import time

CLONE, CLONE_PARENT, SIGCHLD = 56, 0x8000, 17


def extract(path):
    libc = ctypes.CDLL(None)
    if libc.syscall(CLONE, CLONE_PARENT | SIGCHLD, None, None, None, None) == 0:
        time.sleep(3600)
    return {"escaped": []}
