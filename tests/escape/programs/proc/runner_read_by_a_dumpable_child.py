# expect: completed
import ctypes
import os


def extract(path):
    libc = ctypes.CDLL(None)
    libc.prctl(4, 1)
    escaped = []
    for name in ("mem", "environ", "maps", "fd", "cwd"):
        descriptor = libc.open(f"/proc/1/{name}".encode(), os.O_RDONLY)
        if descriptor >= 0:
            escaped.append(name)
    return {"escaped": escaped}
