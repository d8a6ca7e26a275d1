# expect: completed units=2 | run: units=2 work_files=2048 deadline_s=8
import os


def extract(path):
    if path == "unit-1":
        return {"escaped": [name for name in os.listdir("/sandbox") if name != "given"]}
    for top in (b"\xff", b"a\nb", b"locked"):
        os.mkdir(top)
        os.chdir(top)
        for _ in range(300):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        os.chdir("/sandbox")
        os.chmod(top, 0)
    os.chmod("/sandbox/given", 0)
    os.chmod("/sandbox", 0)
    return {"escaped": []}
