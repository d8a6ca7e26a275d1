# expect: signalled signal=SIGQUIT outputs= | run: collect=**/core*,core*
# A core file would hold the process's memory; none may appear.
import os
import resource
import signal


def extract(path):
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print("ESCAPED the limit of core files was raised")
    except (ValueError, OSError):
        pass
    os.kill(os.getpid(), signal.SIGQUIT)
