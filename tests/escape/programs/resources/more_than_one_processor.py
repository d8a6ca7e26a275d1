# expect: completed
import os
import time


def burn(until):
    while time.monotonic() < until:
        pass


def extract(path):
    began = time.monotonic()
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            burn(began + 0.6)
            os._exit(0)
        children.append(child)
    used = sum(sum(os.wait4(child, 0)[2][:2]) for child in children)
    share = used / (time.monotonic() - began)
    return {"escaped": [share] if share > 1.5 else []}
