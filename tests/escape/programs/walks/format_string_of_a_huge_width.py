# expect: exited_nonzero error=MemoryError | run: policy=extractor builtins=safe
def extract(path):
    return "{:>{w}}".format("a", w=10**14)
