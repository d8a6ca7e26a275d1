# expect: completed units=2 | run: units=2
import builtins
import json
import os
import signal
import sys
import time


def extract(path):
    umask = os.umask(0)
    found = [hasattr(json, "left"), hasattr(builtins, "left"), "left" in sys.modules, "LEFT" in os.environ]
    found += [signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL, umask != 0o022, os.nice(0) != os.getpriority(os.PRIO_PROCESS, os.getppid()), os.getcwd() != "/sandbox"]
    json.left = builtins.left = sys.modules["left"] = True
    os.environ["LEFT"] = os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.nice(5)
    os.chdir("/")
    return {"escaped": [number for number, one in enumerate(found) if one]}
