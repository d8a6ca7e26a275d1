# expect: completed
# The kernel counts these per user, on the whole machine: who takes them all takes them from other containers.
import ctypes

CALLS = {"inotify_init": (253,), "inotify_init1": (294, 0)}


def extract(path):
    libc = ctypes.CDLL(None)
    return {"escaped": [name for name, call in CALLS.items() if libc.syscall(*call) != -1]}
