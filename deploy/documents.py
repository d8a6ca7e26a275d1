"""Lays the documents out below a folder, each link with what it leads to.

    python deploy/documents.py FOLDER

`docs/` is laid out as it is. Sources and samples that its pages lead to come along below `source/`, since an
installation has no checkout beside it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PLACES = {ROOT / "CHANGELOG.md": Path("CHANGELOG.md")}
"""What has a place of its own; all else outside `docs/` goes below `source/`."""

LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)\s#]+)")


def lay_out(folder: Path) -> None:
    """Write all documents below a folder, with their links made to fit."""
    laid: set[Path] = set()
    waiting = [path for path in sorted(DOCS.rglob("*")) if path.is_file()]
    while waiting:
        path = waiting.pop()
        if path in laid:
            continue
        laid.add(path)
        place = folder / _place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".md":
            shutil.copyfile(path, place)
            continue
        place.write_text(_relinked(path))
        waiting += [file for link in LINK.findall(path.read_text()) for file in _files(_target(path, link))]


def _place(path: Path) -> Path:
    """Return where a file goes, relative to the folder of all."""
    if path in PLACES:
        return PLACES[path]
    return path.relative_to(DOCS) if path.is_relative_to(DOCS) else "source" / path.relative_to(ROOT)


def _relinked(page: Path) -> str:
    """Return the text of a page with its links as they lead from where it goes."""
    return LINK.sub(
        lambda link: os.path.relpath(_place(_target(page, link[1])), _place(page).parent), page.read_text()
    )


def _target(page: Path, link: str) -> Path:
    target = (page.parent / link).resolve()
    if not target.exists():
        sys.exit(f"{page.relative_to(ROOT)}: the link {link} leads nowhere")
    return target


def _files(target: Path) -> list[Path]:
    if target.is_dir():
        found = (path for path in sorted(target.rglob("*")) if "__pycache__" not in path.parts)
        return [path for path in found if path.is_file() and not target.is_relative_to(DOCS)]
    return [target]


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
