import re
from pathlib import PurePosixPath


def extract(path: str) -> dict:
    name = PurePosixPath(path).stem
    match = re.match(r"(?P<subject>[a-z]+)_report_v(?P<version>\d+)", name)
    if match is None:
        return {"subject": name}
    return {"subject": match.group("subject"), "version": int(match.group("version"))}
