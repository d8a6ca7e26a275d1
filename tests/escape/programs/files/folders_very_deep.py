# expect: completed outputs=top:0 dropped~"too deep" | run: collect=**/x,top work_files=2048
import os


def extract(path):
    os.close(os.open("top", os.O_CREAT))
    for _ in range(1500):
        os.mkdir("d")
        os.chdir("d")
    os.close(os.open("x", os.O_CREAT))
    return {"escaped": []}
