# expect: out_of_memory | run: processes=2 memory_mb=16 open_files=200
# What waits in pipes is the kernel's memory; it counts as the container's. A user has 64 MiB of it (pipe(7)), all
# containers of Docker together, so the limit lies far below.
import fcntl
import os


def extract(path):
    held = 0
    for _ in range(80):
        _, writing = os.pipe()
        os.set_blocking(writing, False)
        try:
            fcntl.fcntl(writing, 1031, 2**20)
        except OSError:
            pass
        try:
            while True:
                held += os.write(writing, b"p" * 65536)
        except BlockingIOError:
            pass
    return {"escaped": [held] if held > 60 * 2**20 else []}
