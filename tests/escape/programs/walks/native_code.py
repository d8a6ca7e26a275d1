# expect: policy_violation refused~ctypes | run: policy=extractor builtins=safe
def extract(path):
    import json

    ctypes = json.__builtins__["__import__"]("ctypes")
    return {"escaped": [ctypes.CDLL(None).getpid()]}
