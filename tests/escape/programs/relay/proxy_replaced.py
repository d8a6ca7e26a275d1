# expect: completed | run: network=allowlist
# The proxy's port is taken as long as the attempt lasts, whatever options a socket sets.
import os
import socket


def extract(path):
    _, port = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
    escaped = []
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        for address in ("127.0.0.1", ""):
            with socket.socket() as other:
                other.setsockopt(socket.SOL_SOCKET, option, 1)
                try:
                    other.bind((address, int(port)))
                    other.listen()
                    escaped.append([option, address])
                except OSError:
                    pass
    return {"escaped": escaped}
