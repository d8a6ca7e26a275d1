# expect: completed | run: network=allowlist units=2
import os
import socket

kept = []


def extract(path):
    host, port = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
    for number in range(40):
        stream = socket.create_connection((host, int(port)), timeout=3)
        if number % 2:
            stream.sendall(b"CONNECT a.test:443 HTTP/1.1\r\n")
        stream.shutdown(socket.SHUT_WR if number % 3 else socket.SHUT_RD)
        kept.append(stream)
    return {"escaped": []}
