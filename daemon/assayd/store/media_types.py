"""Of what type a file of a bundle is, by its name and, for pictures, by how it begins.

A picture is one only where both agree, so that what code calls ``plot.png`` and is none goes as bytes. The
type helps who fetches a file; nothing of ours shows a picture by it, and who does takes it for hostile.
"""

from __future__ import annotations

OTHER = "application/octet-stream"
_TEXTS = {
    ".log": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
    ".xml": "application/xml",
}
_PICTURES = {
    ".gif": ("image/gif", (b"GIF87a", b"GIF89a")),
    ".jpeg": ("image/jpeg", (b"\xff\xd8\xff",)),
    ".jpg": ("image/jpeg", (b"\xff\xd8\xff",)),
    ".pdf": ("application/pdf", (b"%PDF-",)),
    ".png": ("image/png", (b"\x89PNG\r\n\x1a\n",)),
}
"""Not SVG: it is a program to who shows it."""


def media_type(name: str, content: bytes) -> str:
    """Return the media type of a file."""
    suffix = _suffix_of(name)
    if suffix in _PICTURES:
        found, beginnings = _PICTURES[suffix]
        return found if content.startswith(beginnings) else OTHER
    if suffix == ".webp":
        return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else OTHER
    return _TEXTS.get(suffix, OTHER)


def _suffix_of(name: str) -> str:
    """Return the end of a file's name from its last point on; a name that only begins with one has none."""
    stem, point, ending = name.rpartition("/")[2].rpartition(".")
    return point + ending if stem else ""
