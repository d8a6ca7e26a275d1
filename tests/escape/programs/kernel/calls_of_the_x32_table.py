# expect: signalled signal=SIGSYS
import ctypes


def extract(path):
    found = ctypes.CDLL(None).syscall(0x40000000 | 39)
    return {"escaped": [found] if found > 0 else []}
