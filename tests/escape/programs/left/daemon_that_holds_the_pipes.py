# expect: left_processes left=1
# Twice forked, a session of its own, all pipes held: end-of-file would never come.
import os
import time


def extract(path):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(3600)
        os._exit(0)
    os.wait()
    return {"escaped": []}
