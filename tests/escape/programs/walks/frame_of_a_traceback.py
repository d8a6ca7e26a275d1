# expect: policy_violation refused~tb_frame | run: policy=extractor builtins=safe
def extract(path):
    try:
        1 / 0
    except ZeroDivisionError as problem:
        above = problem.__traceback__.tb_frame.f_back
        return {"escaped": [sorted(above.f_globals)]}
