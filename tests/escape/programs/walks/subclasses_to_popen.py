# expect: policy_violation refused~import | run: policy=extractor builtins=safe
def extract(path):
    import subprocess

    return {"escaped": [subprocess.check_output(["/usr/bin/python3.11", "-c", "print(1)"])]}
