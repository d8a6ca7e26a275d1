# expect: completed
# The kernel counts descriptors in flight per user, and all containers are one user: none may be put there.
import socket


def extract(path):
    ours, theirs = socket.socketpair()
    sent = 0
    try:
        for _ in range(1000):
            socket.send_fds(ours, [b"x"], [theirs.fileno()] * 10)
            sent += 10
    except PermissionError:
        pass
    ours.sendall(b"plain")
    return {"escaped": [f"{sent} descriptors in flight"] if sent or theirs.recv(5) != b"plain" else []}
