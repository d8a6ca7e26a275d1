# expect: completed | run: network=allowlist
# Loopback is this container's own: nobody but its proxy, at 3128, listens there.
import errno
import socket


def extract(path):
    escaped = []
    for port in (22, 53, 80, 111, 443, 631, 2375, 2376, 5432, 6379, 8000, 8080, 9090):
        with socket.socket() as stream:
            if (number := stream.connect_ex(("127.0.0.1", port))) != errno.ECONNREFUSED:
                escaped.append([port, number])
    return {"escaped": escaped}
