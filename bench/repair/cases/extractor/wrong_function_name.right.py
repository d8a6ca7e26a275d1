from pathlib import PurePosixPath


def extract(path: str) -> dict:
    """Extract metadata from the folder structure."""
    p = PurePosixPath(path)
    return {
        "client": p.parts[2].lower(),
        "year": int(p.parts[3]),
        "quarter": p.parts[4],
        "file_type": p.suffix[1:],
    }
