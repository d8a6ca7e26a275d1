# expect: completed record=none
# A record that cannot be read is no record; reading it must not hurt the daemon.
import os


def extract(path):
    head, body = b'{"type":"result","last":true}', b"[" * 500_000
    frame = len(head).to_bytes(4, "big") + len(body).to_bytes(4, "big") + head + body
    while frame:
        frame = frame[os.write(3, frame) :]
    os._exit(0)
