# expect: completed
import os
import resource


def extract(path):
    opened = 0
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (10_000, 10_000))
        return {"escaped": ["the limit of open files was raised"]}
    except (ValueError, OSError):
        pass
    try:
        while opened < 1000:
            os.open("/dev/null", os.O_RDONLY)
            opened += 1
    except OSError:
        pass
    return {"escaped": [opened] if opened > 128 else []}
