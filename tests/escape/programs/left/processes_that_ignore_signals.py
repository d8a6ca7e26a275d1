# expect: left_processes left=4
import os
import signal
import time


def extract(path):
    for _ in range(4):
        if os.fork() == 0:
            for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number, signal.SIG_IGN)
            while True:
                time.sleep(1)
    return {"escaped": []}
