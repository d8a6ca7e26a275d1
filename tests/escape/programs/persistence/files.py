# expect: completed units=2 | run: units=2
import os


def extract(path):
    seen = sorted(os.listdir("."))
    if path == "unit-0":
        os.makedirs("a/b/c")
        os.mkfifo(".hidden")
        os.symlink("/etc", "given/link")
        with open("given/data.txt", "w") as file:
            file.write("changed")
        return {"escaped": []}
    with open("given/data.txt") as file:
        return {"escaped": seen if seen != ["given"] or os.listdir("given") != ["data.txt"] or file.read() != "given" else []}
