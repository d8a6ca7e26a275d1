# expect: completed outputs=fine.txt:1 dropped~"not a regular file" | run: collect=*.txt,folder/*
import os


def extract(path):
    for number, target in enumerate(("/etc/passwd", "/proc/1/environ", "/proc/self/mem", "../etc/passwd", "fine.txt")):
        os.symlink(target, f"link{number}.txt")
    os.symlink("/etc", "folder")
    with open("fine.txt", "w") as file:
        file.write("f")
    return {"escaped": []}
