# expect: left_processes left=1
import os
import signal


def extract(path):
    child = os.fork()
    if child == 0:
        signal.pause()
    os.kill(child, signal.SIGSTOP)
    return {"escaped": []}
