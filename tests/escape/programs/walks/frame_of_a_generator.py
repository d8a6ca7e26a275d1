# expect: policy_violation refused~gi_frame | run: policy=extractor builtins=safe
def extract(path):
    def numbers():
        yield running.gi_frame.f_back.f_back.f_builtins["open"]

    running = numbers()
    return {"escaped": [str(next(running))]}
