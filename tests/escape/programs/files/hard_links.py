# expect: completed outputs=one:3,two:3 | run: collect=*
import os


def extract(path):
    escaped = []
    with open("one", "w") as file:
        file.write("own")
    os.link("one", "two")
    for target in ("/etc/passwd", "/usr/bin/python3.11", "/proc/1/environ", "/proc/self/fd/0"):
        try:
            os.link(target, "three", follow_symlinks=True)
            escaped.append(target)
        except OSError:
            pass
    return {"escaped": escaped}
