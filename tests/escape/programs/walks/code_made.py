# expect: policy_violation refused~code.__new__ | run: policy=extractor builtins=safe
def extract(path):
    code = extract.__code__.replace(co_filename="/usr/lib/python3.11/os.py")
    return {"escaped": [str(code)]}
