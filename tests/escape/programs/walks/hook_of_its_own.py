# expect: policy_violation refused~sys.addaudithook | run: policy=extractor builtins=safe
def extract(path):
    import typing

    heard = []
    typing.sys.addaudithook(lambda event, arguments: heard.append(event))
    typing.sys.audit("anything")
    return {"escaped": heard}
