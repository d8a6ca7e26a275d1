"""The single file that images start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import assayd.guest
from assayd.imaging.guest_file import build_guest_file

FILES = {
    "__init__.py": "",
    "__main__.py": "import sys\nfrom .inner.deep import A\nprepare = main = lambda: print(A, *sys.modules)",
    "inner/__init__.py": "",
    "inner/deep.py": "A = __file__",
}


def built(folder: Path, files: dict[str, str]) -> Path:
    """Return the file built from these sources."""
    for name, text in files.items():
        path = folder / "sources" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    target = folder / "guest.pyc"
    target.write_bytes(build_guest_file(folder / "sources", "tried", "/shown"))
    return target


def run(file: Path) -> str:
    """Start the file like an image."""
    command = [sys.executable, "-I", "-S", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def test_file_runs_its_main_module_and_shows_modules_by_their_sources(tmp_path: Path) -> None:
    shown, *modules = run(built(tmp_path, FILES)).split()

    assert shown == "/shown/inner/deep.py"
    assert {"tried", "tried.__main__", "tried.inner", "tried.inner.deep"} <= set(modules)


def test_file_is_the_same_at_every_build(tmp_path: Path) -> None:
    assert built(tmp_path / "a", FILES).read_bytes() == built(tmp_path / "b", FILES).read_bytes()


def test_runner_starts_without_what_takes_long_to_import(tmp_path: Path) -> None:
    sources = Path(assayd.guest.__file__).parent
    files = {path.relative_to(sources).as_posix(): path.read_text() for path in sources.rglob("*.py")}
    files["__main__.py"] = "import sys\nfrom . import runner\nprepare = main = lambda: print(*sys.modules)"
    loaded = set(run(built(tmp_path, files)).split())

    assert "tried.runner" in loaded
    assert not loaded & {
        "collections", "contextlib", "ctypes", "dataclasses", "enum", "functools", "inspect", "json", "re",
        "runpy", "selectors", "signal", "socket", "struct", "traceback", "typing",
    }  # fmt: skip
