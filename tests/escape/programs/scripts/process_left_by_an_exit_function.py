# expect: left_processes left=1 | run: program=script exec=yes
import atexit
import os
import signal


def leave():
    if os.fork() == 0:
        os.setsid()
        signal.pause()


atexit.register(leave)
