# expect: protocol_violation malformed~"not JSON"
import os


def extract(path):
    head = b"[" * 65000
    frame = len(head).to_bytes(4, "big") + bytes(4) + head
    while frame:
        frame = frame[os.write(3, frame) :]
    return {"escaped": []}
