# expect: policy_violation verdict=failed rules~tests.contradicted static~forbidden.name | run: program=module
import json
import os


def test_wrong():
    name = "test_adapter.py::test_wrong"
    ended = {"event": "ended", "id": name, "outcome": "passed", "duration_s": 0.1, "stdout": "", "stderr": ""}
    final = {"status": "returned", "framework": 0, "lines": 3, "collected": 1, "ended": 1, "notes": []}
    body = b"\n".join(json.dumps(line).encode() for line in (ended, final))
    head = b'{"type":"result","last":true}'
    os.write(3, len(head).to_bytes(4, "big") + len(body).to_bytes(4, "big") + head + body)
    os._exit(0)
