import json


def extract(path: str) -> dict:
    parts = path.strip("/").split("/")
    data = {"client": parts[1], "year": int(parts[2])}
    return json.dumps(data)
