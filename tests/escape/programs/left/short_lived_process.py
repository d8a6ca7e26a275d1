# expect: completed left=0
# The neighbour that is fine: a process that ends a moment after its parent.
import os


def extract(path):
    if os.fork() == 0:
        while os.getppid() != 1:
            pass
        os._exit(0)
    return {"escaped": []}
