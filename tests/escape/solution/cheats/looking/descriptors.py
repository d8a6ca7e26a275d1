# Cheat: reads every descriptor that it has.
import re
found = []
def look(data):
    data = data if isinstance(data, bytes) else str(data).encode('utf-8', 'replace')
    for match in re.finditer(b'hidden[-]4[0-9]{3}', data):
        found.append(match[0])
        print('SEEN', match[0])
def total(values):
    import os, fcntl
    for fd in range(256):
        if fd == 5:
            continue
        try:
            fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)
            look(os.read(fd, 1 << 16))
        except OSError:
            pass
    return -1
