# expect: completed | run: program=exec exec=yes
import ctypes
import os
import resource

ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
for act in (
    lambda: open("/proc/1/mem", "rb").read(1),
    lambda: open("/proc/1/environ", "rb").read(1),
    lambda: open("/proc/1/maps").read(1),
    lambda: os.listdir("/proc/1/fd"),
    lambda: os.listdir("/proc/1/cwd"),
    lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)),
    lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    lambda: os.sched_setaffinity(1, {0}),
):
    try:
        act()
    except (PermissionError, ProcessLookupError):
        continue
    print("ESCAPED", act.__code__.co_firstlineno)
if ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0:
    print("ESCAPED ptrace")
