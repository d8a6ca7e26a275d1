# expect: completed | run: network=allowlist
import socket


def extract(path):
    escaped = []
    for name in ("example.com", "metadata.google.internal", "host.docker.internal", "gateway.docker.internal"):
        try:
            escaped.append([name, socket.gethostbyname(name)])
        except OSError:
            pass
    return {"escaped": escaped}
