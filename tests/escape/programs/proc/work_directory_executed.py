# expect: completed | run: exec=yes
# Nothing that was written can be run, neither by execve nor mapped as code.
import ctypes
import mmap
import os
import shutil


def extract(path):
    escaped = []
    for place in ("/sandbox/python", "/dev/shm/x"):
        with open(place, "wb") as file:
            file.write(open("/usr/bin/python3.11", "rb").read(4096))
        os.chmod(place, 0o755)
        try:
            os.execv(place, [place])
        except PermissionError:
            pass
        descriptor = os.open(place, os.O_RDONLY)
        try:
            mmap.mmap(descriptor, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE)
            escaped.append(f"{place} mapped")
        except PermissionError:
            pass
        os.close(descriptor)
    return {"escaped": escaped}
