"""Modules that a text may import."""

from __future__ import annotations

from assayd.static.python.mentioned import mentioned


def test_modules_are_found_however_they_are_imported() -> None:
    text = "import re, json as j\nfrom os import path\nfrom collections.abc import Mapping\n"
    assert mentioned(("re", "json", "os.path", "collections.abc", "csv"), text) == (
        "re",
        "json",
        "os.path",
        "collections.abc",
    )


def test_a_part_of_a_word_is_no_module() -> None:
    assert mentioned(("re", "io"), "more = ratio") == ()
