# expect: completed limits_met
# The kernel takes the process that is too large, not the runner, and not its parent.
import os
import signal


def extract(path):
    child = os.fork()
    if child == 0:
        kept = []
        while True:
            kept.append(bytearray(2**20))
    _, status = os.waitpid(child, 0)
    return {"escaped": [] if os.WTERMSIG(status) == signal.SIGKILL else [status]}
