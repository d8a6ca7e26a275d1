# expect: policy_violation refused~function.__new__ | run: policy=extractor builtins=safe
def extract(path):
    made = type(extract)(extract.__code__, {"__builtins__": {}})
    return {"escaped": [str(made)]}
