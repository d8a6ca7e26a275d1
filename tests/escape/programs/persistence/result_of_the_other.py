# expect: protocol_violation units=2 malformed~"more than one result" | run: units=2
# A process of the first unit that waits to write the second one's result.
import os
import time


def extract(path):
    if path == "unit-1":
        raise ValueError("the second unit fails")
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            while True:
                time.sleep(0.02)
                os.write(3, b"\0\0\0\x1d\0\0\0\x02" + b'{"type":"result","last":true}' + b"{}")
    return {"escaped": []}
