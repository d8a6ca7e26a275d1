"""The console's third-party files match their listed digests, and their licenses are included."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import assayd_console

STATIC = Path(assayd_console.__file__).parent / "static"
ROW = re.compile(r"^\| `([\w.]+)` \| .* \| \[.*\]\((.+)\) \| `([0-9a-f]{64})` \|$", re.MULTILINE)
OWN = {"console.js", "login.js"}


def test_files_of_others_have_the_digests_that_are_noted_and_their_licences() -> None:
    rows = ROW.findall((STATIC / "VENDORED.md").read_text())

    assert {name for name, _, _ in rows} == {path.name for path in STATIC.glob("*.js")} - OWN
    for name, licence, digest in rows:
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest
        assert (STATIC / licence).is_file()
