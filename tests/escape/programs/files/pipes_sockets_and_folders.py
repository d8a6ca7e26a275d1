# expect: completed outputs= dropped~pipe.txt | run: collect=*.txt
# To open a pipe would wait for a writer; to read a folder is an error. Neither is tried.
import os


def extract(path):
    os.mkfifo("pipe.txt")
    os.mkdir("folder.txt")
    os.mkfifo("folder.txt/inner.txt")
    return {"escaped": []}
