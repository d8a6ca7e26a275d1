"""Measured memory baselines, stored with the build's archives by the content of the image."""

import json
from pathlib import Path

LABEL_BASELINE = "org.assayd.baseline-bytes"
UNMEASURED = "unmeasured"
"""Tag of an image whose baseline is not known yet: it never stands under the name that is run."""
_FILE = "baselines.json"


def measured_baseline(cache: Path, name: str, files: str) -> int | None:
    """Return the baseline, in megabytes, that was measured of an image with these files; None for none."""
    path = cache / name / _FILE
    found = json.loads(path.read_text()) if path.is_file() else {}
    megabytes = found.get(files)
    return megabytes if type(megabytes) is int else None


def keep_baseline(cache: Path, name: str, files: str, megabytes: int) -> None:
    """Store the measurement, and drop those of other files."""
    (cache / name / _FILE).write_text(json.dumps({files: megabytes}))
