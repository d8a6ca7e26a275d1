# expect: protocol_violation malformed
import os


def extract(path):
    os.write(3, b"\0\0\0")
    os._exit(0)
