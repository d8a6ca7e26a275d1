"""Quarterly client reports: /data/CLIENT-ABC/2024/Q1/report.csv"""

import re
from pathlib import Path

QUARTER = re.compile(r"Q(?P<quarter>[1-4])")


def extract(path: str) -> dict:
    parts = Path(path).parts
    if len(parts) < 4:
        return {}
    client, year, quarter, filename = parts[-4:]
    found = QUARTER.fullmatch(quarter)
    if found is None or not client.startswith("CLIENT-") or not year.isdigit():
        return {}
    number = int(found["quarter"])
    return {
        "client_id": client.removeprefix("CLIENT-"),
        "year": int(year),
        "quarter": number,
        "start_month": 3 * number - 2,
        "end_month": 3 * number,
        "filename": filename,
        "extension": Path(filename).suffix.lstrip("."),
    }
