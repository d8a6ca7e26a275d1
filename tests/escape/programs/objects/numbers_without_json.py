# expect: completed notes~"is not a JSON number"
def extract(path):
    numbers = [float("nan"), float("inf"), -float("inf"), 10**5000, -(1 << 20_000), 1j, -0.0, 5e-324]
    return {"escaped": [], "numbers": numbers}
