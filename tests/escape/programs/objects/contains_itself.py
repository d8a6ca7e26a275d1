# expect: completed notes~"contains itself"
def extract(path):
    ring = [1]
    ring.append({"ring": ring})
    return {"escaped": [], "ring": ring}
