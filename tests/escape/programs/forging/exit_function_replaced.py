# expect: exited_nonzero exit_code=1 error=ValueError
# What the child still needs after guest code it holds by reference.
import builtins
import json
import os
import sys


def extract(path):
    leave = os._exit
    os._exit = lambda status: leave(0)
    os.write = json.dumps = builtins.len = builtins.str = builtins.isinstance = lambda *a, **k: 0
    sys.modules.clear()
    raise ValueError("not to be hidden")
