# expect: protocol_violation malformed~"more than one result"
import os


def extract(path):
    head, body = b'{"type":"result","last":true}', b"{}"
    frame = len(head).to_bytes(4, "big") + len(body).to_bytes(4, "big") + head + body
    for _ in range(5000):
        os.write(3, frame)
    os._exit(0)
