import re
from pathlib import PurePosixPath


def extract(path: str) -> dict:
    parts = PurePosixPath(path).parts
    found = re.search(r"(\d{4})", path)
    return {"client": parts[2], "year": int(found.group(1)), "quarter": int(parts[4][1])}
