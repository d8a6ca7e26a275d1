# expect: policy_violation refused~os | run: policy=extractor builtins=safe
# Names are compared as the compiler compares them, in NFKC form.
def extract(path):
    import ｏｓ

    return {"escaped": [ｏｓ.getpid()]}
