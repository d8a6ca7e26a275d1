# expect: policy_violation refused~ag_frame | run: policy=extractor builtins=safe
def extract(path):
    async def numbers():
        yield 1

    return {"escaped": [str(numbers().ag_frame.f_builtins)]}
