# expect: completed | run: processes=8
# Each is memory of the kernel's that nothing counts: 5.4 million of single bytes took 1 GB in a minute.
import fcntl
import os
import struct

COUNT = 100_000
LOCK = struct.Struct("hhqqi4x")
F_OFD_SETLK, F_SETLEASE = 37, 1024


def locked(descriptor):
    """Tell whether another process finds a byte of the file locked."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        asked = LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        kind = LOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))[0]
        os.write(writing, b"locked" if kind != fcntl.F_UNLCK else b"free")
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    return os.read(reading, 10) == b"locked"


def extract(path):
    escaped = []
    descriptor = os.open("/sandbox/file", os.O_RDWR | os.O_CREAT)
    for number in range(COUNT):
        # Every second byte, or they become one.
        fcntl.fcntl(descriptor, fcntl.F_SETLK, LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 2 * number, 1, 0))
        if number == 0 and locked(descriptor):
            escaped.append("F_SETLK")
            break
    for name, command, argument in (
        ("F_OFD_SETLK", F_OFD_SETLK, LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)),
        ("F_SETLEASE", F_SETLEASE, fcntl.F_WRLCK),
    ):
        try:
            fcntl.fcntl(descriptor, command, argument)
            escaped.append(name)
        except OSError:
            pass
    return {"escaped": escaped}
