# expect: signalled signal=SIGTERM
import os
import signal


def extract(path):
    os.kill(os.getpid(), signal.SIGTERM)
