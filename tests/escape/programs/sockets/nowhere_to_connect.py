# expect: completed | run: network=allowlist
# Where a mode allows sockets, there is no route but loopback's: refused before a packet is made.
import errno
import socket

ADDRESSES = ("169.254.169.254", "10.0.0.1", "192.168.0.1", "172.17.0.1", "255.255.255.255", "224.0.0.1", "1.1.1.1")
REFUSED = {errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.EHOSTUNREACH}


def extract(path):
    escaped = []
    for address in ADDRESSES:
        with socket.socket() as stream:
            stream.setblocking(False)
            if (number := stream.connect_ex((address, 80))) not in REFUSED:
                escaped.append([address, number])
    return {"escaped": escaped}
