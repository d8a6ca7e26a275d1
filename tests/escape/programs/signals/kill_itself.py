# expect: signalled signal=SIGKILL
# A SIGKILL that nobody of ours sent is neither a timeout nor a lack of memory.
import os
import signal


def extract(path):
    os.kill(os.getpid(), signal.SIGKILL)
