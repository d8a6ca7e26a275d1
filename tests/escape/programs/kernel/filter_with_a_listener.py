# expect: completed
# One with a listener would answer calls in the kernel's place; one of its own could at most take away.
import ctypes
import struct

SECCOMP = 317


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def extract(path):
    libc = ctypes.CDLL(None)
    program = Program(1, struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000))
    escaped = []
    if libc.syscall(SECCOMP, 1, 8, ctypes.byref(program)) != -1:
        escaped.append("listener")
    libc.syscall(SECCOMP, 1, 0, ctypes.byref(program))
    if libc.socket(2, 1, 0) != -1 or libc.unshare(0x10000000) != -1:
        escaped.append("the last filter won")
    return {"escaped": escaped}
