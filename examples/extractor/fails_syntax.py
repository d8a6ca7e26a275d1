import re


def extract(path: str) -> dict
    match = re.search(r"/(\d{4})/", path)
    return {"year": int(match[1])} if match else {}
