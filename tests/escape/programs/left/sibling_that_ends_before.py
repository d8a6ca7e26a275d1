# expect: exited_nonzero exit_code=1 error=ValueError
# A sibling that exits 0 is not mistaken for the unit's own child.
import ctypes
import time

CLONE, CLONE_PARENT, SIGCHLD = 56, 0x8000, 17


def extract(path):
    libc = ctypes.CDLL(None)
    if libc.syscall(CLONE, CLONE_PARENT | SIGCHLD, None, None, None, None) == 0:
        libc._exit(0)
    time.sleep(0.05)
    raise ValueError("the unit's own end")
