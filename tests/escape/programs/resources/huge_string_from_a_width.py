# expect: exited_nonzero error=MemoryError
def extract(path):
    return f"{1:>{10**14}}"
