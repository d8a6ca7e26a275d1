# expect: protocol_violation malformed | run: program=script policy=default
import os

os.write(3, b"\xff" * 64)
try:
    import socket
except ImportError:
    pass
