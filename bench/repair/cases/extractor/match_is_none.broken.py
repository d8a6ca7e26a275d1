import re


def extract(path: str) -> dict:
    match = re.search(r"/(\d{4})/Q(\d)/([a-z]+)_report_v(\d{2})\.csv$", path)
    return {
        "year": int(match.group(1)),
        "quarter": int(match.group(2)),
        "subject": match.group(3),
        "version": int(match.group(4)),
    }
