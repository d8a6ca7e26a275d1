# expect: exited_nonzero error=RecursionError
def extract(path):
    return extract(path)
