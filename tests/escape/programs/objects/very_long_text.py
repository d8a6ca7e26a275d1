# expect: completed notes~"cut" | run: result_kb=8192
def extract(path):
    return {"escaped": [], "text": "t" * 6_000_000, "k" * 100_000: 1}
