# expect: completed outputs="...:0,..x:0,a\\b:0,~:0" | run: collect=*
# Names that mean something elsewhere; none is a way up.
import os


def extract(path):
    for name in ("...", "..x", "a\\b", "~"):
        os.close(os.open(name, os.O_CREAT))
    return {"escaped": []}
