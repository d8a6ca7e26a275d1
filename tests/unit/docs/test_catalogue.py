"""Titles and helps of all rules, as a reviewable text, and the form of titles and hints."""

from __future__ import annotations

from support.texts import catalogue, hints

OPENED_BY_PRONOUN = ("It ", "That ", "There ", "This ", "They ")


def test_catalogue_is_the_golden_one() -> None:
    again = "run: PYTHONPATH=tests python tests/support/texts/catalogue.py, and read the difference"
    assert catalogue.written() == catalogue.GOLDEN.read_text(), again


def test_titles_are_short_and_end_without_a_period() -> None:
    titles = [rule.title for rule, _ in catalogue.rules().values()]

    assert [title for title in titles if title.endswith(".")] == []
    assert [title for title in titles if len(title.split()) > 8] == []


def test_helps_show_code_or_an_instruction() -> None:
    helps = [rule.help for rule, _ in catalogue.rules().values() if rule.help]

    assert [text for text in helps if text.startswith(OPENED_BY_PRONOUN)] == []


def test_hints_are_short_sentences_that_name_their_subject() -> None:
    found = hints.hints()

    assert len(found) > 150
    assert [hint for hint in found if len(hint[1]) > 200] == []
    assert [hint for hint in found if hint[1].startswith(OPENED_BY_PRONOUN)] == []
    # the rest of a text that ends with a space follows in another statement, and a form ends without a period
    assert [hint for hint in found if not hint[1].endswith((".", "?", " ", ":", ")", "`", hints.HOLE))] == []
    assert [hint for hint in found if not (hint[1][0].isupper() or hint[1][0] in f"`'{hints.HOLE}")] == []
