from __future__ import annotations

from assayd.model.finding import Edit, Finding, limit_findings
from assayd.model.text_limits import MAX_EDIT_CHARS, MAX_TRACEBACK_CHARS, MESSAGE_CHARS

SHORT = Finding(rule="a.b", category="a", message="No 'x'.", suggestion="Add it.", snippet="x", context="y")


def test_texts_of_a_finding_are_shortened_to_their_bounds() -> None:
    name = "x" * 900_000
    long = Finding(rule="a.b", category="a", message=name, suggestion=name, snippet=name, context=name)

    (kept,) = limit_findings([long])

    texts = (kept.message, kept.suggestion, kept.snippet, kept.context)
    lengths = [len(text or "") for text in texts]
    assert lengths == [MESSAGE_CHARS, MESSAGE_CHARS, MESSAGE_CHARS, MAX_TRACEBACK_CHARS]
    assert kept.message.endswith("…")


def test_an_ordinary_finding_is_kept_as_it_is() -> None:
    assert limit_findings([SHORT]) == (SHORT,)


def test_edits_beyond_the_bound_of_all_are_dropped_and_their_findings_stay() -> None:
    half = Finding(
        rule="a.b",
        category="a",
        message="m",
        edit=Edit(start_line=1, end_line=1, replacement="x" * (MAX_EDIT_CHARS // 2)),
    )

    assert [finding.edit is not None for finding in limit_findings([half, half, half])] == [True, True, False]


def test_hint_that_quotes_a_line_has_no_control_characters() -> None:
    hint = "x was assigned in line 1 (x = f()  # \x1b[31m\x9b2J\u202e).\nDid you mean 'é'?"
    (kept,) = limit_findings([Finding(rule="r", category="c", message="m", suggestion=hint)])
    assert kept.suggestion == "x was assigned in line 1 (x = f()  #  [31m 2J ).\nDid you mean 'é'?"
