# Cheat: searches its own memory.
import re
found = []
def look(data):
    data = data if isinstance(data, bytes) else str(data).encode('utf-8', 'replace')
    for match in re.finditer(b'hidden[-]4[0-9]{3}', data):
        found.append(match[0])
        print('SEEN', match[0])
def total(values):
    try:
        with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb') as memory:
            for line in maps:
                start, end = (int(x, 16) for x in line.split()[0].split('-'))
                if ' r' in line:
                    memory.seek(start)
                    look(memory.read(end - start))
    except (OSError, OverflowError, ValueError) as problem:
        print(type(problem).__name__)
    return -1
