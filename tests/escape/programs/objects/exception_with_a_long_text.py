# expect: exited_nonzero error=ValueError message~x
def extract(path):
    raise ValueError("x\ud800" * 10**6)
