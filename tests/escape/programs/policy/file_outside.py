# expect: policy_violation refused~/etc/passwd | run: policy=default
def extract(path):
    return {"escaped": [open("../etc/passwd").read()]}
