# expect: policy_violation refused~compile | run: policy=extractor builtins=safe
def extract(path):
    import json

    return {"escaped": [json.__builtins__["eval"]("1+1")]}
