# expect: exited_nonzero error=MemoryError
def extract(path):
    return [0] * 10**13
