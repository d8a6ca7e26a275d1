# expect: completed
import os


def extract(path):
    held = 0
    try:
        with open("/dev/shm/big", "wb", buffering=0) as file:
            while held < 2**24:
                held += file.write(bytes(4096))
    except OSError:
        pass
    return {"escaped": [held] if held > 65536 else []}
