def extract(path: str) -> dict:
    held = []
    while True:
        held.append(path * 100_000)
    return {"held": len(held)}
