# expect: completed events~network | run: network=allowlist deadline_s=40 timeout_s=60
import os
import socket


def extract(path):
    host, port = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
    sent = 0
    with socket.create_connection((host, int(port)), timeout=30) as stream:
        stream.sendall(b"GET http://a.test/ HTTP/1.1\r\nX: ")
        try:
            while sent < 64 * 2**20:
                sent += stream.send(b"x" * 65536)
        except OSError:
            pass
    return {"escaped": [sent] if sent >= 64 * 2**20 else []}
