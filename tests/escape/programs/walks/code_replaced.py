# expect: policy_violation refused~code | run: policy=extractor builtins=safe
def extract(path):
    def outer():
        return 1

    outer.__code__ = (lambda: 2).__code__
    return {"escaped": [outer()]}
