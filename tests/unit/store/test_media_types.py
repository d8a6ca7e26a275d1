"""Media types of a bundle's files: an image must have the right name and the right first bytes."""

from __future__ import annotations

import pytest

from assayd.store.media_types import OTHER, media_type

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("files/plot.png", PNG, "image/png"),
        ("files/a.b/photo.jpg", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("files/moves.gif", b"GIF89a", "image/gif"),
        ("files/page.pdf", b"%PDF-1.7", "application/pdf"),
        ("files/p.webp", b"RIFF\x00\x00\x00\x00WEBP", "image/webp"),
        ("files/rows.csv", b"a,b", "text/csv; charset=utf-8"),
        ("report.json", b"{}", "application/json"),
    ],
)
def test_file_that_is_what_its_name_says_has_its_type(name: str, content: bytes, wanted: str) -> None:
    assert media_type(name, content) == wanted


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("files/plot.png", b"<script>"),
        ("files/plot.png", b""),
        ("files/plot.jpg", PNG),
        ("files/plot", PNG),
        ("files/.png", PNG),
        ("files/plot.svg", b"<svg/>"),
        ("files/page.html", b"<html>"),
        ("files/p.webp", b"RIFF\x00\x00\x00\x00WAVE"),
    ],
)
def test_anything_else_goes_as_bytes(name: str, content: bytes) -> None:
    assert media_type(name, content) == OTHER
