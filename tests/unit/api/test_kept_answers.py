"""When an answer is made anew."""

from __future__ import annotations

from collections.abc import Callable

from assayd.api.kept_answers import SHARE, AnswerCache


class Costly:
    """Makes answers that take two seconds of a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.made = 0

    def __call__(self) -> int:
        self.now += 2
        self.made += 1
        return self.made


def test_answer_is_kept_for_ten_times_as_long_as_it_took() -> None:
    costly = Costly()
    kept = AnswerCache(lambda: costly.now)
    assert [kept.get("a", costly) for _ in range(3)] == [1, 1, 1]
    costly.now += 2 * SHARE - 0.1
    assert kept.get("a", costly) == 1
    costly.now += 0.1
    assert kept.get("a", costly) == 2


def test_answer_that_never_changes_is_made_once() -> None:
    costly = Costly()
    kept = AnswerCache(lambda: costly.now)
    kept.get("a", costly, changes=False)
    costly.now += 1_000_000
    assert kept.get("a", costly, changes=False) == 1


def test_answers_of_other_names_are_their_own() -> None:
    makes: list[Callable[[], str]] = [lambda: "a", lambda: "b"]
    kept = AnswerCache(lambda: 0.0)
    assert [kept.get(str(number), make) for number, make in enumerate(makes)] == ["a", "b"]
