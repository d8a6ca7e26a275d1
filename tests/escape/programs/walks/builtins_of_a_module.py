# expect: policy_violation refused~open | run: policy=extractor builtins=safe
# A module of the library carries the real built-in names.
def extract(path):
    import json

    real = json.__builtins__
    return {"escaped": [real["open"]("/etc/passwd").read(), str(real["__import__"]("os"))]}
