# expect: completed | run: processes=8
# What waits is counted by user, and was counted as root's: 96,365 of them left none to anybody on the machine.
import ctypes
import os
import signal

MOST = 256
TIMERS = 1000


def queued():
    libc = ctypes.CDLL(None)
    count = 0
    while libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), ctypes.c_void_p()) == 0:
        count += 1
    return count


def made():
    libc = ctypes.CDLL(None)
    timer = ctypes.c_void_p()
    return sum(libc.timer_create(1, None, ctypes.byref(timer)) == 0 for _ in range(TIMERS))


def extract(path):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
    escaped = []
    for _ in range(4):
        if (child := os.fork()) == 0:
            os._exit(queued() > MOST)
        escaped += ["signals"] if os.waitpid(child, 0)[1] else []
    if (count := queued()) > MOST:
        escaped.append(count)
    if (timers := made()) > MOST:
        escaped.append(timers)
    return {"escaped": escaped}
