# expect: completed outputs=n0000:0,n0001:0,n0002:0,n0003:0,n0004:0,n0005:0,n0006:0,n0007:0,n0008:0,n0009:0 dropped~"one file too many" | run: collect=* work_files=4096
import os


def extract(path):
    for number in range(3000):
        os.close(os.open(f"n{number:04}", os.O_CREAT))
    return {"escaped": []}
