# expect: signalled signal=SIGKILL
import os
import signal


def extract(path):
    os.killpg(0, signal.SIGKILL)
