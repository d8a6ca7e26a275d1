import os
import fnmatch


def extract(path: str) -> dict:
    size = os.stat(path).st_size
    with open(path) as file:
        head = file.readline()
    return {"size": size, "head": head, "user": fnmatch.os.environ["USER"], "kind": path.__dict__}
