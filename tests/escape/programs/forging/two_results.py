# expect: protocol_violation malformed~"more than one result"
import json
import os


def extract(path):
    record = {"status": "returned", "value": {"escaped": []}, "value_type": "dict", "notes": []}
    body, head = json.dumps(record).encode(), b'{"type":"result","last":true}'
    os.write(3, len(head).to_bytes(4, "big") + len(body).to_bytes(4, "big") + head + body)
    return {"escaped": []}
