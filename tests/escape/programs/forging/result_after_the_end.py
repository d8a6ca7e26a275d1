# expect: protocol_violation malformed~"more than one result"
# A second result by a process that outlives the one whose result counts.
import os


def extract(path):
    if os.fork() == 0:
        while os.getppid() != 1:
            pass
        head, body = b'{"type":"result","last":true}', b'{"status":"returned"}'
        os.write(3, len(head).to_bytes(4, "big") + len(body).to_bytes(4, "big") + head + body)
        os._exit(0)
    return {"escaped": []}
