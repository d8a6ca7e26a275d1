"""What is kept of an unfinished answer."""

from __future__ import annotations

from assayd_chains.loop import MOST_CHARS, StreamedAnswer


def test_pieces_are_joined_cleaned_and_cut() -> None:
    answer = StreamedAnswer(lambda: None)
    answer.append("a\x07")
    answer.append("b" * MOST_CHARS)
    answer.append("c")
    assert answer.text == "a\N{REPLACEMENT CHARACTER}" + "b" * (MOST_CHARS - 2)


def test_empty_piece_begins_anew() -> None:
    answer = StreamedAnswer(lambda: None)
    answer.append("a call that failed")
    answer.append("")
    answer.append("the next")
    assert answer.text == "the next"


def test_who_waits_is_not_woken_by_every_piece() -> None:
    woken: list[int] = []
    answer = StreamedAnswer(lambda: woken.append(1))
    for _ in range(1000):
        answer.append("x")
    assert 1 <= len(woken) < 100
