# expect: completed outputs=closed/secret:4 | run: collect=closed/*
# What its owner has locked is still the attempt's.
import os


def extract(path):
    os.mkdir("closed")
    with open("closed/secret", "w") as file:
        file.write("open")
    os.chmod("closed/secret", 0)
    os.chmod("closed", 0)
    os.chmod("/sandbox", 0)
    return {"escaped": []}
