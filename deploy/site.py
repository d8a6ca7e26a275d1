"""A hook of mkdocs: lays the pages out as an installation has them, before each build, and adds a reference.

mkdocs refuses links that leave its folder, and a second word after the language of a code block.
"""

from __future__ import annotations

import re
import runpy
import shutil
import tempfile
from pathlib import Path
from typing import Any

WRITE_REFERENCE = runpy.run_path(str(Path(__file__).with_name("reference.py")))["write"]
LAY_OUT = runpy.run_path(str(Path(__file__).with_name("documents.py")))["lay_out"]
WORD = re.compile(r"^( *```\w+) \S+$", re.MULTILINE)


def on_pre_build(config: Any) -> None:
    """Write the pages into the folder of the site, except unchanged ones: `mkdocs serve` watches it."""
    pages = Path(config.docs_dir)
    with tempfile.TemporaryDirectory() as made:
        LAY_OUT(Path(made))
        WRITE_REFERENCE(Path(made) / "reference")
        laid = {path.relative_to(made): path for path in Path(made).rglob("*") if path.is_file()}
        for name, path in laid.items():
            content = path.read_bytes()
            if name.suffix == ".md":
                content = WORD.sub(r"\1", content.decode()).encode()
            place = pages / name
            if not place.exists() or place.read_bytes() != content:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
    for old in [path for path in pages.rglob("*") if path.is_file() and path.relative_to(pages) not in laid]:
        old.unlink()
    for folder in [path for path in pages.rglob("*") if path.is_dir() and not any(path.rglob("*"))]:
        shutil.rmtree(folder, ignore_errors=True)
