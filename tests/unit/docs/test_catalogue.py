"""Titles and helps of all rules, as reviewers read them in a diff, and their shape."""

from __future__ import annotations

from support.texts import catalogue

LONG_TITLES = 31
"""How many titles have more than eight words. May only fall."""


def test_catalogue_is_the_golden_one() -> None:
    again = "run: PYTHONPATH=tests python tests/support/texts/catalogue.py, and read the difference"
    assert catalogue.written() == catalogue.GOLDEN.read_text(), again


def test_titles_are_short_and_end_without_a_period() -> None:
    titles = [rule.title for rule, _ in catalogue.rules().values()]

    assert [title for title in titles if title.endswith(".")] == []
    assert sum(len(title.split()) > 8 for title in titles) <= LONG_TITLES


def test_helps_show_code_or_an_instruction() -> None:
    opened_by_pronoun = ("It ", "That ", "There ")
    helps = [rule.help for rule, _ in catalogue.rules().values() if rule.help]

    assert [text for text in helps if text.startswith(opened_by_pronoun)] == []
