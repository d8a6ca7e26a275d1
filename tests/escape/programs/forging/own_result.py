# expect: completed stdout~forged
# The one thing that can be forged: the unit's own result, which an honest function could have returned too.
import json
import os


def extract(path):
    record = {"status": "returned", "value": {"escaped": []}, "value_type": "dict", "notes": []}
    body, head = json.dumps(record).encode(), b'{"type":"result","last":true}'
    os.write(1, b"forged")
    os.write(3, len(head).to_bytes(4, "big") + len(body).to_bytes(4, "big") + head + body)
    os._exit(0)
