# expect: completed | run: network=allowlist open_files=240 deadline_s=8
# What waits in connections is the kernel's memory, of a pool that is the whole machine's.
import socket


def extract(path):
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    held, kept = 0, [listener]
    for number in range(100):
        stream = socket.socket()
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            try:
                stream.setsockopt(socket.SOL_SOCKET, option, 10**7)
                return {"escaped": ["a buffer of its own size"]}
            except PermissionError:
                pass
        stream.connect(listener.getsockname())
        stream.setblocking(False)
        kept += [stream, listener.accept()[0]]
        try:
            while True:
                held += stream.send(bytes(65536))
        except BlockingIOError:
            pass
    return {"escaped": [held] if held > 40 * 2**20 else []}
