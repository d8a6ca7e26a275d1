# expect: completed units=2 | run: units=2
# What one unit has filled, the next finds empty: else it could be made to fail.
def extract(path):
    held = 0
    try:
        with open(f"/dev/shm/{path}", "wb", buffering=0) as file:
            while held < 2**20:
                held += file.write(bytes(4096))
    except OSError:
        pass
    return {"escaped": [held] if held < 32768 else []}
