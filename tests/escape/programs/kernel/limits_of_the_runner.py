# expect: completed
# The runner has the same user: only the filter keeps a child from changing its limits and its priority.
import ctypes

PRLIMIT, AFFINITY, SCHEDULER, PARAM, ATTR, IOPRIO = 302, 203, 144, 142, 314, 251


def extract(path):
    libc = ctypes.CDLL(None)
    low = (ctypes.c_uint64 * 2)(4, 4)
    tries = {
        "prlimit": (PRLIMIT, 1, 7, low, None),
        "prlimit read": (PRLIMIT, 1, 7, None, low),
        "prlimit of processor time": (PRLIMIT, 1, 0, (ctypes.c_uint64 * 2)(0, 0), None),
        "affinity": (AFFINITY, 1, 8, (ctypes.c_uint64 * 1)(1)),
        "scheduler": (SCHEDULER, 1, 5, ctypes.byref(ctypes.c_int(0))),
        "param": (PARAM, 1, ctypes.byref(ctypes.c_int(0))),
        "attr": (ATTR, 1, bytes(48), 0),
        "ioprio": (IOPRIO, 1, 1, 3 << 13),
        "priority": (141, 0, 1, 19),
        "priority of the group": (141, 1, 1, 19),
        "priority of the user": (141, 2, 0, 19),
        "migrate_pages": (256, 1, 8, (ctypes.c_uint64 * 1)(1), (ctypes.c_uint64 * 1)(1)),
        "move_pages": (279, 1, 0, None, None, None, 0),
    }
    return {"escaped": [name for name, call in tries.items() if libc.syscall(*call) != -1]}
