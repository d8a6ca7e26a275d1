"""Which known names are suggested for a misspelled one."""

from __future__ import annotations

import pytest

from assayd.did_you_mean import MAX_CHARS, find_close_names, format_did_you_mean_hint


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("timout_s", "timeout_s"),
        ("amuont", "amount"),
        ("exract", "extract"),
        ("baze", "base"),
        ("colections", "collections"),
        ("data/outptu.csv", "data/output.csv"),
    ],
)
def test_slip_of_one_or_two_letters_finds_the_name(written: str, meant: str) -> None:
    assert find_close_names(written, ["region", "warnings", meant, "x"]) == [meant]


@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("requests", "resource"),
        ("median", "amount"),
        ("read", "write"),
        ("torch", "touch_x"),
        ("copyreg", "copy"),
    ],
)
def test_different_name_is_not_suggested(written: str, other: str) -> None:
    assert find_close_names(written, [other]) == []


def test_several_names_come_with_the_closest_first() -> None:
    assert find_close_names("split-strings", ["split-string", "split-spring", "join"], 3) == [
        "split-string",
        "split-spring",
    ]


def test_name_over_the_limit_is_not_compared() -> None:
    long = "a" * (MAX_CHARS + 1)
    assert find_close_names(long, [long]) == []


def test_hint_has_the_name_in_parentheses_or_is_empty() -> None:
    assert (
        format_did_you_mean_hint("enabld", ["enabled"]),
        format_did_you_mean_hint("xyz", ["enabled"]),
    ) == (
        " (did you mean enabled?)",
        "",
    )
