# expect: signalled signal=SIGSEGV
import ctypes


def extract(path):
    ctypes.string_at(0)
