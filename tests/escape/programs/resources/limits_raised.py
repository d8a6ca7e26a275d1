# expect: completed
# The hard limits stand; only root could raise them.
import os
import resource


def extract(path):
    escaped = []
    for name in ("RLIMIT_FSIZE", "RLIMIT_CORE", "RLIMIT_NOFILE", "RLIMIT_MSGQUEUE", "RLIMIT_RTPRIO", "RLIMIT_NICE"):
        kind = getattr(resource, name)
        try:
            resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            escaped.append(name)
        except (ValueError, OSError):
            pass
    for act in (
        lambda: os.nice(-1),
        lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
        lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
        lambda: os.sched_setaffinity(1, {0}),
        lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (4, 4)),
    ):
        try:
            act()
            escaped.append(act.__code__.co_names)
        except OSError:
            pass
    return {"escaped": escaped}
