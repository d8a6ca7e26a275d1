"""The reason why a chain's answer failed, next to the answer."""

from __future__ import annotations

from assayd_console.pages.chains import iter_steps
from unit.console.test_pages import fix


def test_draft_that_is_no_submission_shows_its_reason() -> None:
    draft = fix(1, "?", strategy="write", original_error="not Python", verdict=None)

    (step,) = iter_steps({"attempts": [draft]})

    assert step["failed"] == ["failed: not Python"]


def test_answer_before_a_new_draft_does_not_get_the_reason_of_the_draft() -> None:
    failed = fix(1, "a", strategy="write", original_error="")
    draft = fix(2, "?", strategy="write", original_error="not Python", verdict=None)

    first, second = iter_steps({"attempts": [failed, draft]})

    assert (first["failed"], second["failed"]) == ((), ["failed: not Python"])
