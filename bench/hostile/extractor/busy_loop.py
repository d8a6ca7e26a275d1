def extract(path: str) -> dict:
    turns = 0
    while turns >= 0:
        turns += 1
    return {"turns": turns}
