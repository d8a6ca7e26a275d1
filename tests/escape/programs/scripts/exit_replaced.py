# expect: exited_nonzero exit_code=1 | run: program=script exec=yes
import ctypes
import os
import sys

os._exit = os.write = sys.exit = sys.excepthook = lambda *_: None
sys.stderr = sys.__stderr__ = None
ctypes.pythonapi.Py_Exit = lambda status: None
raise ValueError("still seen")
