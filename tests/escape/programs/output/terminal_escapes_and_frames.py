# expect: completed stdout~unit_end
# What looks like frames on standard output is output.
import json
import os


def extract(path):
    head = json.dumps({"type": "unit_end", "unit": 0, "wait_status": 0}).encode()
    os.write(1, b"\x1b]0;title\x07\x1b[2J\x9b31m" + len(head).to_bytes(4, "big") + bytes(4) + head)
    return {"escaped": []}
