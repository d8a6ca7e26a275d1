# expect: policy_violation refused~urllib | run: policy=extractor builtins=safe
from urllib import request


def extract(path):
    return {"escaped": [str(request)]}
