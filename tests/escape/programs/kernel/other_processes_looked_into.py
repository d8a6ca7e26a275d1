# expect: completed
import ctypes

PTRACE, VM_READ, VM_WRITE, KCMP, PIDFD_OPEN, PIDFD_GETFD, MADVISE = 101, 310, 311, 312, 434, 438, 440


def extract(path):
    libc = ctypes.CDLL(None)
    area = ctypes.create_string_buffer(64)
    vector = (ctypes.c_uint64 * 2)(ctypes.addressof(area), 64)
    tries = {
        "ptrace attach": (PTRACE, 16, 1, None, None),
        "ptrace seize": (PTRACE, 0x4206, 1, None, None),
        "ptrace me": (PTRACE, 0, 0, None, None),
        "read": (VM_READ, 1, vector, 1, vector, 1, 0),
        "write": (VM_WRITE, 1, vector, 1, vector, 1, 0),
        "read own": (VM_READ, libc.getpid(), vector, 1, vector, 1, 0),
        "kcmp": (KCMP, 1, 1, 0, 0, 0),
        "pidfd_open": (PIDFD_OPEN, 1, 0),
        "pidfd_getfd": (PIDFD_GETFD, 0, 0, 0),
        "process_madvise": (MADVISE, 0, vector, 1, 0, 0),
        "get_robust_list": (274, 1, ctypes.byref(ctypes.c_void_p()), ctypes.byref(ctypes.c_size_t())),
    }
    return {"escaped": [name for name, call in tries.items() if libc.syscall(*call) != -1]}
