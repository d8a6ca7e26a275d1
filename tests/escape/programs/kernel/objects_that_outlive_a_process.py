# expect: completed
import ctypes

CALLS = dict(
    shmget=(29, 0, 4096, 0o1600), msgget=(68, 0, 0o1600), semget=(64, 0, 1, 0o1600), shmat=(30, 0, None, 0),
    mq_open=(240, b"queue", 0o102, 0o600, None), setxattr=(188, b"/sandbox", b"user.a", b"b", 1, 0),
    fsetxattr=(190, 0, b"user.a", b"b", 1, 0), lsetxattr=(189, b"/sandbox", b"trusted.a", b"b", 1, 0),
)


def extract(path):
    libc = ctypes.CDLL(None)
    return {"escaped": [name for name, call in CALLS.items() if libc.syscall(*call) != -1]}
