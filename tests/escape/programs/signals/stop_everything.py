# expect: left_processes left=1
# SIGSTOP to all and to PID 1: who would enforce the deadline is not among those that stop.
import os
import signal


def extract(path):
    if os.fork() == 0:
        signal.pause()
    os.kill(1, signal.SIGSTOP)
    os.kill(-1, signal.SIGSTOP)
    return {"escaped": []}
