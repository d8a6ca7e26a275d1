from pathlib import PurePosixPath


def extract(path: str) -> dict:
    p = PurePosixPath(path)
    result = {"client": p.parts[2], "year": int(p.parts[3])}
    return result
