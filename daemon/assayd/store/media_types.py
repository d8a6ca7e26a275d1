"""Determines the media type of a bundle's file from the file's name and, for pictures, its first bytes.

A file is served as a picture only if its first bytes match its name, so an arbitrary file named
``plot.png`` is served as plain bytes. The type is intended for download clients: assayd's pages don't use
it to display pictures, and clients that display pictures must treat the content as hostile.
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
"""Without SVG, which can contain scripts."""


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
    """Return the suffix of a file name with its dot; the suffix of a name like ``.profile`` is empty."""
    stem, point, ending = name.rpartition("/")[2].rpartition(".")
    return point + ending if stem else ""
