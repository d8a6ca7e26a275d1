# expect: completed | run: processes=2
# Timers, events, signals and watchers as files are memory of the kernel's: no more of them than files may be open.
import ctypes
import os

OPEN_FILES = 128


def made(act):
    count = 0
    if (child := os.fork()) == 0:
        while count <= OPEN_FILES and act() >= 0:
            count += 1
        os._exit(count)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def extract(path):
    libc = ctypes.CDLL(None)
    sorts = {
        "timerfd": lambda: libc.timerfd_create(1, 0),
        "eventfd": lambda: libc.eventfd(0, 0),
        "signalfd": lambda: libc.signalfd(-1, bytes(128), 0),
        "epoll": lambda: libc.epoll_create1(0),
    }
    kept = {name: made(act) for name, act in sorts.items()}
    escaped = [f"{name} {count}" for name, count in kept.items() if not 0 < count < OPEN_FILES]
    return {"escaped": escaped}
