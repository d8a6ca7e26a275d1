# expect: completed units=2 | run: units=2
import fcntl
import os
import resource


def extract(path):
    escaped = []
    descriptor = os.open("/usr/lib/python3.11/os.py", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        escaped.append("a lock is held")
    if resource.getrlimit(resource.RLIMIT_CPU)[0] != resource.RLIM_INFINITY:
        escaped.append("a limit is left")
    resource.setrlimit(resource.RLIMIT_CPU, (50, 50))
    return {"escaped": escaped}
