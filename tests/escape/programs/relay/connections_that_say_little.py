# expect: timeout | run: network=allowlist deadline_s=2
# More of them than may be open at once, each begun and never ended.
import os
import socket
import time


def extract(path):
    host, port = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
    streams = [socket.create_connection((host, int(port)), timeout=3) for _ in range(60)]
    while True:
        for stream in streams:
            stream.sendall(b"G" if streams.index(stream) else b"X")
        time.sleep(0.05)
