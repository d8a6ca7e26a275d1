# expect: completed
# A terminal of its own could be made to hold input for somebody else.
import fcntl
import os

TIOCSTI, TIOCSCTTY, TIOCLINUX, TIOCSETD, TIOCCONS = 0x5412, 0x540E, 0x541C, 0x5423, 0x541D


def extract(path):
    escaped = []
    for name in ("/dev/tty", "/dev/ptmx", "/dev/pts/ptmx", "/dev/console", "/dev/tty0", "/dev/vcs"):
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_NOCTTY)
        except OSError:
            continue
        for request in (TIOCSTI, TIOCSCTTY, TIOCLINUX, TIOCSETD, TIOCCONS):
            try:
                fcntl.ioctl(descriptor, request, b"x" * 64)
                escaped.append([name, request])
            except OSError:
                pass
        escaped += [name] if name not in {"/dev/ptmx", "/dev/pts/ptmx"} else []
    return {"escaped": escaped}
