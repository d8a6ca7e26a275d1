# expect: completed | run: network=allowlist deadline_s=40 timeout_s=60
import os
import socket


def extract(path):
    host, port = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
    for _ in range(1000):
        socket.create_connection((host, int(port)), timeout=15).close()
    return {"escaped": []}
