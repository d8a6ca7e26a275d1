# expect: policy_violation refused~os.system | run: policy=extractor builtins=safe
# From any object to all classes, from a class of `os` to its globals, from there to a shell.
def extract(path):
    for found in ().__class__.__base__.__subclasses__():
        if found.__name__ == "_wrap_close":
            status = found.__init__.__globals__["system"]("true")
            return {"escaped": [status] if status == 0 else []}
