# expect: completed units=2 | run: units=2
def extract(path):
    held = 0
    try:
        with open(path, "wb", buffering=0) as file:
            while held < 2**24:
                held += file.write(bytes(65536))
    except OSError:
        pass
    return {"escaped": [held] if held < 7 * 2**20 else []}
