# expect: policy_violation refused~compile | run: policy=default
def extract(path):
    return {"escaped": [eval("1+1")]}
