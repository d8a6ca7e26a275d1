"""Digests: the same in other places and at other times, and different for different code."""

import os
from pathlib import Path

from assayd.imaging.tree import compute_digest, compute_guest_digest


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


FILES = {"__main__.py": "1", "frames.py": "2", "inner/part.py": "3"}


def test_guest_digest_has_the_value_that_images_carry(tmp_path: Path) -> None:
    # A change of this value means that daemons refuse every image that was built before.
    expected = "sha256:994f80673a996fdb146f55402802d2f9577f46b4d487b4587f138e4145c16999"
    assert compute_guest_digest(write(tmp_path, FILES)) == expected


def test_guest_digest_ignores_place_time_and_other_files(tmp_path: Path) -> None:
    one = write(tmp_path / "one", FILES)
    two = write(tmp_path / "two", dict(reversed(FILES.items())) | {"notes.md": "x", "__pycache__/a.py": "x"})
    os.utime(two / "frames.py", (0, 0))
    assert compute_guest_digest(one) == compute_guest_digest(two)


def test_guest_digest_follows_content_and_name(tmp_path: Path) -> None:
    original = compute_guest_digest(write(tmp_path / "a", FILES))
    assert compute_guest_digest(write(tmp_path / "b", FILES | {"frames.py": "4"})) != original
    renamed = {"__main__.py": "1", "frame.py": "2", "inner/part.py": "3"}
    assert compute_guest_digest(write(tmp_path / "c", renamed)) != original


def test_parts_cannot_run_into_each_other() -> None:
    assert compute_digest([("a", b"bc")]) != compute_digest([("ab", b"c")])
    assert compute_digest([("a", b"b"), ("c", b"")]) != compute_digest([("a", b""), ("c", b"b")])
