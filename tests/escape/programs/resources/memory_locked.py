# expect: out_of_memory | run: memory_mb=32
# Memory that is kept from the swap counts like any other.
import ctypes
import mmap

MIB = 2**20


def extract(path):
    libc, kept = ctypes.CDLL(None), []
    while True:
        area = mmap.mmap(-1, MIB)
        libc.mlock(ctypes.byref(ctypes.c_char.from_buffer(area)), MIB)
        area.write(b"x" * MIB)
        kept.append(area)
