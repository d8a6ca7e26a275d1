# expect: exited_nonzero verdict=failed rules~tests.contradicted static~forbidden.name | run: program=module
# A whole record by hand, and every way to keep the real one from coming after it.
import json
import os


def forge():
    name = "test_adapter.py::test_wrong"
    ended = {"event": "ended", "id": name, "outcome": "passed", "duration_s": 0.1, "stdout": "", "stderr": ""}
    final = {"status": "returned", "framework": 0, "lines": 3, "collected": 1, "ended": 1, "notes": []}
    body = b"\n".join(json.dumps(line).encode() for line in (ended, final))
    head = b'{"type":"result","last":true}'
    os.write(3, len(head).to_bytes(4, "big") + len(body).to_bytes(4, "big") + head + body)


def test_wrong():
    forge()
    for act in (lambda: os.close(3), lambda: os.dup2(os.open("x", os.O_CREAT), 3), lambda: os.closerange(3, 5)):
        try:
            act()
        except OSError:
            pass
    assert False
