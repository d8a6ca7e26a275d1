# expect: completed outputs=given/data.txt:5 | run: collect=**
import os


def extract(path):
    for _ in range(12):
        os.mkdir("n" * 255)
        os.chdir("n" * 255)
    os.close(os.open("f" * 255, os.O_CREAT))
    return {"escaped": []}
