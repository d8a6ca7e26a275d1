# expect: completed
# No family of sockets, of whatever type, but a pair of connected local ones.
import ctypes


def extract(path):
    libc = ctypes.CDLL(None)
    escaped = []
    for family in range(50):
        for kind in (1, 2, 3, 4, 5, 10):
            if libc.socket(family, kind, 0) >= 0:
                escaped.append([family, kind])
            pair = (ctypes.c_int * 2)()
            if family != 1 and libc.socketpair(family, kind, 0, pair) == 0:
                escaped.append(["pair", family, kind])
    return {"escaped": escaped}
