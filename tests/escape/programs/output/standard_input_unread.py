# expect: completed | run: stdin_kb=2048
def extract(path):
    return {"escaped": []}
