# expect: completed
# Neither Python's copy of the environment nor the kernel's holds anything beyond the image's constants.
import ctypes
import os


def extract(path):
    ctypes.CDLL(None).prctl(4, 1)
    with open("/proc/self/environ", "rb") as file:
        given = {item.partition(b"=")[0].decode() for item in file.read().split(b"\0") if item}
    return {"escaped": sorted(os.environ) + sorted(given - {"PATH", "LANG", "HOSTNAME", "HOME", "ASSAYD_PYTHON_PATH"})}
