# expect: policy_violation refused~open | run: policy=extractor builtins=safe
# The importers read files for whoever asks.
def extract(path):
    for found in ().__class__.__base__.__subclasses__():
        if found.__name__ == "FileLoader":
            content = found("m", "/proc/self/status").get_data("/proc/self/status")
            return {"escaped": [str(content)]}
