# expect: completed outputs=a.bin:262144 cut=a.bin dropped= | run: collect=*.bin
import os


def extract(path):
    descriptor = os.open("a.bin", os.O_CREAT | os.O_WRONLY)
    os.truncate(descriptor, 8 * 2**20)
    return {"escaped": []}
