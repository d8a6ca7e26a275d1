# expect: exited_nonzero error=PermissionError
# The pipe that the child reports on stays where it is.
import os


def extract(path):
    os.close(3)
    return {"escaped": []}
