from pathlib import PurePosixPath


def extract(path: str) -> dict:
    stem = PurePosixPath(path).stem
    fields = stem.split("_")
    return {"subject": fields[0], "kind": fields[1], "version": fields[2]}
