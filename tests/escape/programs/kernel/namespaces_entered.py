# expect: completed
import os

import ctypes


def extract(path):
    libc = ctypes.CDLL(None)
    libc.prctl(4, 1)
    escaped = []
    for process in ("1", "self"):
        for name in ("net", "mnt", "pid", "pid_for_children", "user", "uts", "ipc", "cgroup", "time"):
            try:
                descriptor = os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY)
            except OSError:
                continue
            if libc.setns(descriptor, 0) == 0:
                escaped.append([process, name])
    return {"escaped": escaped}
