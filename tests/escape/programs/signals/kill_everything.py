# expect: completed
# SIGKILL to every process that may be signalled: only the program's own child dies.
import os
import signal


def extract(path):
    child = os.fork()
    if child == 0:
        signal.pause()
    os.kill(-1, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return {"escaped": [] if os.WTERMSIG(status) == signal.SIGKILL else ["the child lives"]}
