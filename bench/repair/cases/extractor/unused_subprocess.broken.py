import subprocess
from datetime import datetime


def extract(path: str) -> dict:
    parts = path.split("/")
    year = int(parts[3])
    quarter = int(parts[4][1])
    start = datetime(year, 3 * quarter - 2, 1)
    return {"client": parts[2], "start": start.date().isoformat()}
