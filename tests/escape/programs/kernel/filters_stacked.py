# expect: completed
# A filter of system calls may only take away, but each takes up memory that all of the machine shares.
import ctypes
import os
import struct

STEPS = 4000
SECCOMP = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def extract(path):
    libc = ctypes.CDLL(None)
    load, allow = struct.pack("=HBBI", 0x20, 0, 0, 0), struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
    program = ctypes.byref(Program(STEPS, load * (STEPS - 1) + allow))
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return {
        "escaped": [
            *(["prctl"] if libc.prctl(PR_SET_SECCOMP, FILTER, program, 0, 0) == 0 else []),
            *(["seccomp"] if libc.syscall(SECCOMP, 1, 0, program) == 0 else []),
        ]
    }
