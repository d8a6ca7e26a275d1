# expect: completed events~os.system
# The same where the policy only records: there is no shell, and no execve.
def extract(path):
    for found in ().__class__.__base__.__subclasses__():
        if found.__name__ == "_wrap_close":
            status = found.__init__.__globals__["system"]("true")
            return {"escaped": [status] if status == 0 else []}
