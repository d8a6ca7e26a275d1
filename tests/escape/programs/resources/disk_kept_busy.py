# expect: completed
# Files of the image are on the host's disk: each fsync makes it flush its cache, and direct reads go to it each time.
import ctypes
import mmap
import os

IMAGE = "/usr/lib/python3.11/os.py"
F_SETFL = 4


def opened():
    os.close(os.open(IMAGE, os.O_RDONLY | os.O_DIRECT))


def flagged():
    import fcntl

    descriptor = os.open(IMAGE, os.O_RDONLY)
    fcntl.fcntl(descriptor, F_SETFL, os.O_DIRECT)


def extract(path):
    escaped = []
    for act in (opened, flagged):
        try:
            act()
            escaped.append(act.__name__)
        except OSError:
            pass
    libc = ctypes.CDLL(None)
    if any(call(-1) != 0 for call in (libc.fsync, libc.fdatasync)):
        escaped.append("fsync reaches the kernel")
    with mmap.mmap(-1, mmap.PAGESIZE) as area:
        area.flush()
    return {"escaped": escaped}
