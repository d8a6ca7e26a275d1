# expect: completed
# Who watches a folder of an image that is shared sees which modules others import, and when.
import fcntl
import os

F_NOTIFY, F_SETSIG = 1026, 10
ACCESSED, AGAIN = 0x1, 0x80000000


def extract(path):
    escaped = []
    folder = os.open("/usr/lib/python3.11/json", os.O_RDONLY)
    for name, command, argument in (("F_SETSIG", F_SETSIG, 40), ("F_NOTIFY", F_NOTIFY, ACCESSED | AGAIN)):
        try:
            fcntl.fcntl(folder, command, argument)
            escaped.append(name)
        except OSError:
            pass
    return {"escaped": escaped}
