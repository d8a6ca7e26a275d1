def extract(path: str) -> dict:
    parts = path.split("/")
    quarter = int(parts[4])  # "Q1" is not a number
    return {"quarter": quarter}
