# expect: completed
# Every way to start a program, where the kind needs none.
import ctypes
import os

EXECVEAT = 322
ARGUMENTS = ["python", "-I", "-S", "-c", "print('ESCAPED a program ran')"]


def extract(path):
    escaped = []
    program = "/usr/bin/python3.11"
    for act in (
        lambda: os.execv(program, ARGUMENTS),
        lambda: os.execve(os.open(program, os.O_RDONLY), ARGUMENTS, {}),
        lambda: os.execv("/proc/self/exe", ARGUMENTS),
        lambda: os.execv("/lib64/ld-linux-x86-64.so.2", ["ld.so", program, *ARGUMENTS[1:]]),
        lambda: os.waitpid(os.posix_spawn(program, ARGUMENTS, {}), 0),
    ):
        try:
            act()
        except OSError:
            pass
    descriptor = os.open(program, os.O_RDONLY)
    if ctypes.CDLL(None).syscall(EXECVEAT, descriptor, b"", None, None, 0x1000) != -1:
        escaped.append("execveat")
    return {"escaped": escaped}
