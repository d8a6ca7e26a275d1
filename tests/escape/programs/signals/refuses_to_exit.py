# expect: signalled
# A filter of its own under which exit fails: the C library ends such a process by a fault.
import ctypes
import struct

EXIT, EXIT_GROUP = 60, 231


def step(code, operand, yes=0, no=0):
    return struct.pack("=HBBI", code, yes, no, operand)


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def extract(path):
    refuse, allow = step(0x06, 0x00050001), step(0x06, 0x7FFF0000)
    steps = step(0x20, 0) + step(0x15, EXIT, 1) + step(0x15, EXIT_GROUP, 0, 1) + refuse + allow
    program = Program(len(steps) // 8, steps)
    if ctypes.CDLL(None).prctl(22, 2, ctypes.byref(program)) != 0:
        raise RuntimeError("the filter was not taken")
    return {"escaped": []}
