# expect: completed record=none | run: program=exec exec=yes units=2
import json
import os

RECORD = json.dumps({"status": "returned", "value": {"escaped": []}, "value_type": "dict", "notes": []}).encode()
HEAD = b'{"type":"result","last":true}'
FRAME = len(HEAD).to_bytes(4, "big") + len(RECORD).to_bytes(4, "big") + HEAD + RECORD

places = [str(number) for number in range(256)]
for place in places:
    try:
        os.write(int(place), FRAME)
    except OSError:
        pass
for name in filter(str.isdigit, os.listdir("/proc")):
    for place in places:
        try:
            descriptor = os.open(f"/proc/{name}/fd/{place}", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            continue
        os.write(descriptor, FRAME)
        os.close(descriptor)
