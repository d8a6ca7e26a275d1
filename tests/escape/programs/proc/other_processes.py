# expect: completed
# Nobody is here but the runner and the program.
import os


def extract(path):
    seen = {int(name) for name in os.listdir("/proc") if name.isdigit()}
    return {"escaped": sorted(seen - {1, os.getpid()})}
