# expect: policy_violation refused~gc | run: policy=extractor builtins=safe
def extract(path):
    import json

    gc = json.__builtins__["__import__"]("gc")
    return {"escaped": [len(gc.get_objects())]}
