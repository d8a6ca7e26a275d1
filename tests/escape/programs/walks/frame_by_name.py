# expect: policy_violation refused~sys._getframe | run: policy=extractor builtins=safe
def extract(path):
    import typing

    return {"escaped": [str(typing.sys._getframe(1).f_builtins)]}
