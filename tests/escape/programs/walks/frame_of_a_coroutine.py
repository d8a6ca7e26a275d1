# expect: policy_violation refused~cr_frame | run: policy=extractor builtins=safe
def extract(path):
    async def nothing():
        pass

    coroutine = nothing()
    frame = coroutine.cr_frame
    coroutine.close()
    return {"escaped": [str(frame.f_builtins)]}
