# expect: exited_nonzero error=SystemExit
import sys


def extract(path):
    sys.exit(0)
