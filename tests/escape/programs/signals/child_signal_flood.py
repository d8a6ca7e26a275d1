# expect: completed
# SIGCHLD is the one signal that the runner listens to: it is woken, and nothing more.
import os
import signal
import time


def extract(path):
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        os.kill(1, signal.SIGCHLD)
    return {"escaped": []}
