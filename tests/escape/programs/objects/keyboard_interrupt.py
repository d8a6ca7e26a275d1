# expect: exited_nonzero error=KeyboardInterrupt
def extract(path):
    raise KeyboardInterrupt
