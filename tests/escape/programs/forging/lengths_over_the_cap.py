# expect: protocol_violation malformed~"over the cap"
import os


def extract(path):
    os.write(3, b"\xff" * 8)
    return {"escaped": []}
