# expect: completed dropped~"is one file too many" outputs | run: collect=** processes=2
# A hundred reasons with such names, escaped twice, are more than a frame's header may hold.
import os

FOLDERS, FILES = 3, 220
WIDE = "\N{GRINNING FACE}" * 60


def extract(path):
    folder = "/".join([WIDE] * FOLDERS)
    os.makedirs(folder)
    for number in range(FILES):
        os.close(os.open(f"{folder}/{number:03}", os.O_CREAT | os.O_WRONLY))
    return {"escaped": []}
