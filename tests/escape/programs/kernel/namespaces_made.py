# expect: completed
# A user namespace would bring all capabilities over itself, and most of the kernel's attack surface with them.
import ctypes

UNSHARE, CLONE, CLONE3, SETNS = 272, 56, 435, 308
KINDS = dict(NEWNS=0x20000, NEWCGROUP=0x2000000, NEWUTS=0x4000000, NEWIPC=0x8000000)
KINDS |= dict(NEWUSER=0x10000000, NEWPID=0x20000000, NEWNET=0x40000000, NEWTIME=0x80)


def extract(path):
    libc = ctypes.CDLL(None)
    escaped = []
    for name, flag in KINDS.items():
        for other in (0, KINDS["NEWUSER"]):
            if libc.syscall(UNSHARE, flag | other) != -1:
                escaped.append(["unshare", name])
            # With SIGCHLD as the low byte, which NEWTIME shares, a child would be made.
            child = -1 if name == "NEWTIME" else libc.syscall(CLONE, flag | other | 17, None, None, None, None)
            if child == 0:
                libc._exit(0)
            if child > 0:
                escaped.append(["clone", name])
    arguments = (ctypes.c_uint64 * 11)(KINDS["NEWUSER"])
    child = libc.syscall(CLONE3, arguments, 88)
    if child == 0:
        libc._exit(0)
    return {"escaped": escaped + (["clone3"] if child != -1 else [])}
