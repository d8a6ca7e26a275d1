# expect: exited_nonzero verdict=failed rules~tests.contradicted | run: program=module
# One line more among the real ones.
import json
import os


def test_wrong():
    name = "test_adapter.py::test_wrong"
    ended = {"event": "ended", "id": name, "outcome": "passed", "duration_s": 0.1, "stdout": "", "stderr": ""}
    body, head = json.dumps(ended).encode() + b"\n", b'{"type":"result","last":false}'
    os.write(3, len(head).to_bytes(4, "big") + len(body).to_bytes(4, "big") + head + body)
    assert False
