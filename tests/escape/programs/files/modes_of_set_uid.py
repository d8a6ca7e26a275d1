# expect: completed outputs=x:1 | run: collect=*
import os


def extract(path):
    with open("x", "w") as file:
        file.write("x")
    os.chmod("x", 0o6777)
    os.utime("x", ns=(2**62, -(2**62)))
    return {"escaped": []}
