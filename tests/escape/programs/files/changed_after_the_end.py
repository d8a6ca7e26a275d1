# expect: left_processes | run: collect=swap
# A process that swaps the declared file for a link as fast as it can: it is dead before anything is collected.
import os


def extract(path):
    with open("real", "w") as file:
        file.write("own")
    os.link("real", "swap")
    if os.fork() == 0:
        os.setsid()
        while True:
            os.symlink("/etc/passwd", "other")
            os.rename("other", "swap")
            os.link("real", "other")
            os.rename("other", "swap")
            if os.path.exists("other"):
                os.unlink("other")
    return {"escaped": []}
