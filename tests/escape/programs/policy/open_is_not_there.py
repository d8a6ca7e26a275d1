# expect: exited_nonzero error=NameError | run: policy=extractor builtins=safe
def extract(path):
    return {"escaped": [open("given/data.txt").read()]}
