# expect: exited_nonzero record=none
import os


def extract(path):
    os.close(3)
    return {"escaped": []}
