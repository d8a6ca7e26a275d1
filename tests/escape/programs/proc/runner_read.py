# expect: completed
# PID 1 is not dumpable: what it holds, has open and was given is closed even to its own user.
import os

FILES = (
    "auxv environ maps smaps smaps_rollup pagemap mem numa_maps io syscall stack wchan personality limits_ "
    "timers map_files/ fdinfo/ fd/ cwd root exe task/1/mem task/1/environ task/1/maps ns/net ns/mnt ns/pid attr/exec"
).split()


def look(path):
    if path.endswith("/"):
        return os.listdir(path)
    if path.rsplit("/")[-1] in {"cwd", "root", "exe", "net", "mnt", "pid"}:
        return os.readlink(path)
    with open(path, "rb") as file:
        return file.read(64)


def extract(path):
    escaped = []
    for name in FILES:
        try:
            found = look(f"/proc/1/{name}")
        except OSError:
            continue
        if found and found != b"0":
            escaped.append([name, str(found)])
    return {"escaped": escaped}
