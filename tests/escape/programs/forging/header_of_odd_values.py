# expect: protocol_violation malformed
# Numbers that are too large, not numbers, names given twice: refused one way or another.
import os


def extract(path):
    for head in (b'{"type":"result","last":NaN}', b'{"type":' + b"9" * 60000 + b"}", b'{"type":"x","type":1}'):
        os.write(3, len(head).to_bytes(4, "big") + bytes(4) + head)
    return {"escaped": []}
