# expect: policy_violation refused~os.fork | run: policy=extractor builtins=safe processes=1
def extract(path):
    import fnmatch

    child = fnmatch.os.fork()
    return {"escaped": [child]}
