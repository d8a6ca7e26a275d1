# expect: completed notes~"nested more than"
def extract(path):
    deep = {}
    for _ in range(200_000):
        deep = {"d": deep}
    return {"escaped": [], "deep": deep}
