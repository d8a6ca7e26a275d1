# expect: policy_violation | run: policy=extractor builtins=safe
def extract(path):
    return {"escaped": [__ｉｍｐｏｒｔ__("ｏｓ"), __ｉｍｐｏｒｔ__("os")]}
