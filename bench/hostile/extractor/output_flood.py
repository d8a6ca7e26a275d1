def extract(path: str) -> dict:
    while True:
        print(path * 1000)
    return {"path": path}
