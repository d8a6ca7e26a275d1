# expect: completed events~network | run: network=allowlist
import os
import socket

REQUESTS = (
    "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n",
    "GET http://a.test/ HTTP/1.1\r\n Host: a.test\r\n\r\n",
    "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabc",
    "GET http://a.test/ HTTP/9.9\r\nHost: a.test\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\x00" * 64,
    "\x05\x01\x00",
    "\r\n" * 64,
)


def extract(path):
    host, port = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
    escaped = []
    for text in REQUESTS:
        with socket.create_connection((host, int(port)), timeout=3) as stream:
            stream.sendall(text.encode("latin-1"))
            stream.shutdown(socket.SHUT_WR)
            answer = stream.recv(100)
            if answer and not answer.startswith(b"HTTP/1.1 4"):
                escaped.append([text[:40], str(answer)])
    return {"escaped": escaped}
