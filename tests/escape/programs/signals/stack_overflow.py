# expect: signalled signal=SIGSEGV
import sys


class Deep:
    def __getattr__(self, name):
        return getattr(self, name + "x")


def extract(path):
    sys.setrecursionlimit(10**9)
    return Deep().x
