# expect: exited_nonzero
# The child's own frames are above the guest's: their local names are found, changed, and change nothing.
import ctypes
import sys


def extract(path):
    frame = sys._getframe()
    while (frame := frame.f_back) is not None:
        for name in frame.f_locals:
            if name in {"status", "record", "phase"}:
                frame.f_locals[name] = 0
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    raise ValueError("not to be hidden")
