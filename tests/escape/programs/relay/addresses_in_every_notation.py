# expect: completed events~network | run: network=allowlist
import os
import socket

PLACES = (
    "127.0.0.1:22", "127.1:22", "2130706433:22", "0x7f000001:22", "0177.0.0.1:22", "[::1]:22", "::1:22",
    "[::ffff:127.0.0.1]:22", "localhost:22", "169.254.169.254:80", "10.0.0.1:443", "0:80", "0.0.0.0:80",
    "example.com:443", "example.com:22", "user@example.com:443", "example.com%00.test:443", "127。0。0。1:22",
)


def ask(text):
    host, port = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=3) as stream:
        stream.sendall(text.encode())
        return stream.recv(100)


def extract(path):
    asked = [f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n" for place in PLACES]
    asked += [f"GET http://{place}/ HTTP/1.1\r\nHost: {place}\r\n\r\n" for place in PLACES]
    answers = [ask(text) for text in asked]
    return {"escaped": [str(answer) for answer in answers if not answer.startswith(b"HTTP/1.1 4")]}
