# expect: completed notes~"more than" | run: deadline_s=15
# Sixty references that unfold to 2**60 times a thousand values.
def extract(path):
    value = [0] * 1000
    for _ in range(60):
        value = [value, value]
    return {"escaped": [], "value": value}
