# expect: output_limit | run: read_kb=32
# The unit's own child has ended well; what it left writes on until the cap.
import os


def extract(path):
    if os.fork() == 0:
        while os.getppid() != 1:
            pass
        while True:
            os.write(1, b"f" * 65536)
    return {"escaped": []}
