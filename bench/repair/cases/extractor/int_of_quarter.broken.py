def extract(path: str) -> dict:
    parts = path.strip("/").split("/")
    return {"client": parts[1], "year": int(parts[2]), "quarter": int(parts[3])}
