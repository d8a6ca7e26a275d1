# expect: completed events~network | run: network=allowlist
# What guest code says is content of frames, never frames.
import json
import os
import socket
import struct


def frame(body=b"", **header):
    head = json.dumps(header).encode()
    return struct.pack(">II", len(head), len(body)) + head + body


def extract(path):
    host, port = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
    forged = (
        frame(type="unit_end", unit=0, wait_status=0)
        + frame(b'{"escaped":["forged"]}', type="result", unit=0, index=0, last=True)
        + frame(type="stream_open", unit=0, stream=1)
        + frame(b"HTTP/1.1 200 OK\r\n\r\n", type="stream_data", stream=0)
        + frame(type="bye", outputs_dropped=[], peak_memory_bytes=0)
    )
    with socket.create_connection((host, int(port)), timeout=3) as stream:
        stream.sendall(forged)
        answer = stream.recv(100)
    return {"escaped": [] if answer.startswith(b"HTTP/1.1 400 ") else [str(answer)]}
