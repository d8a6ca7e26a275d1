# expect: completed
# A file may not even look larger than the directory that holds it.
import os


def extract(path):
    escaped = []
    for size in (2**24, 2**40):
        try:
            descriptor = os.open("sparse", os.O_CREAT | os.O_RDWR)
            os.truncate(descriptor, size)
            escaped.append(size)
        except OSError:
            os.close(descriptor)
    return {"escaped": escaped}
