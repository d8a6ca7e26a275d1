"""Stores measured memory baselines next to the build's archives, keyed by image content."""

import json
from pathlib import Path

LABEL_BASELINE = "org.assayd.baseline-bytes"
UNMEASURED = "unmeasured"
"""Tag of an image whose baseline is unknown; such an image never gets the name that runs use."""
_FILE = "baselines.json"


def read_baseline(cache: Path, name: str, files: str) -> int | None:
    """Return an image's measured baseline in megabytes, or None if its content wasn't measured."""
    path = cache / name / _FILE
    found = json.loads(path.read_text()) if path.is_file() else {}
    megabytes = found.get(files)
    return megabytes if type(megabytes) is int else None


def store_baseline(cache: Path, name: str, files: str, megabytes: int) -> None:
    """Store the measured baseline, and delete the baselines of other image contents."""
    (cache / name / _FILE).write_text(json.dumps({files: megabytes}))
