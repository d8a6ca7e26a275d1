import re
from pathlib import PurePosixPath

QUARTER = re.compile(r"^Q([1-4])$")


def extract(path: str) -> dict
    """Read client, year and quarter from the folders of a report."""
    parts = PurePosixPath(path).parts
    result = {"client": parts[2], "year": int(parts[3])}
    found = QUARTER.match(parts[4])
    if found:
        result["quarter"] = int(found.group(1))
    return result
