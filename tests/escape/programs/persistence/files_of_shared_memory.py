# expect: completed units=2 | run: units=2
import os


def extract(path):
    if path == "unit-0":
        with open("/dev/shm/left", "w") as file:
            file.write("for the next one")
        os.makedirs("/dev/shm/folder/inner")
        return {"escaped": []}
    return {"escaped": sorted(os.listdir("/dev/shm"))}
