# expect: completed
# Characters that change the direction of writing show one thing and run another; what runs is what is there.
def extract(path):
    access = "user\u202e \u2066# not admin\u2069 \u2066"
    return {"escaped": [access] if access == "user" else []}
