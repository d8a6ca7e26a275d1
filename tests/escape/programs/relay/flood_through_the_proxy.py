# expect: completed events~network | run: network=allowlist deadline_s=40 timeout_s=60
# More than an attempt may send, at a host that is refused and in pieces of one byte.
import os
import socket


def extract(path):
    host, port = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
    sent = 0
    for piece, most in ((b"x" * 65536, 64 * 2**20), (b"x", 20_000)):
        with socket.create_connection((host, int(port)), timeout=30) as stream:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                stream.sendall(b"PUT http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000000\r\n\r\n")
                while sent < most:
                    sent += stream.send(piece)
            except OSError:
                pass
    return {"escaped": [sent] if sent >= 64 * 2**20 else []}
