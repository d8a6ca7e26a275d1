"""The filter between guest output and a terminal."""

from __future__ import annotations

import pytest

from assayd_client.cli.terminal import plain


@pytest.mark.parametrize(
    "mark", ["\u200b", "\u200d", "\u00ad", "\ufeff", "\u2060", "\U000e0041", "\u202e", "\x1b", "\u180e"]
)
def test_what_nobody_sees_is_shown_as_its_code(mark: str) -> None:
    assert plain(f"a{mark}b") == f"a\\x{ord(mark):02x}b"


def test_letters_of_all_kinds_go_through() -> None:
    assert plain("naïve 日本 \N{GRINNING FACE}\tx\n") == "naïve 日本 \N{GRINNING FACE}\tx\n"
