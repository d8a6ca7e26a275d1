"""Wheels that tests make: the smallest that pip takes, and an index of them."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path


def make_wheel(
    folder: Path, name: str, version: str, files: Mapping[str, bytes], *, requires: str = ""
) -> Path:
    """Write a wheel of pure Python into a folder."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += f"Requires-Dist: {requires}\n" if requires else ""
    content = {
        **files,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},{_digest(data)},{len(data)}\n" for path, data in content.items())
    content[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = folder / f"{name}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as wheel:
        for member, data in content.items():
            wheel.writestr(member, data)
    return path


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def make_index(folder: Path) -> str:
    """Write an index of two wheels, of which one requires the other, and return its address for pip."""
    shout = b"from whisper import words\ndef loud():\n    return words().upper()\n"
    make_wheel(folder / "shout", "shout", "1.2", {"shout.py": shout}, requires="whisper>=2")
    tool = {"whisper/__init__.py": b"def words():\n    return 'so quiet'\n", "whisper/tool": b"\x7fELF"}
    make_wheel(folder / "whisper", "whisper", "2.5", tool)
    for project in (folder / "shout", folder / "whisper"):
        links = "".join(f'<a href="{wheel.name}">{wheel.name}</a>\n' for wheel in project.glob("*.whl"))
        (project / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    return folder.as_uri()
