"""The page that shows the effect of a profile; it contains text of submitted code."""

from __future__ import annotations

from assayd_console.rendering import render_page

HOSTILE = "<script>alert(1)</script>"


def test_review_shows_changes_and_additions_and_hostile_names_as_text() -> None:
    example = {"attempt_id": "01JTC8ZK5V0000000000000001", "kind": "extractor", "message": HOSTILE, "line": 1}
    change = {"direction": "would_fail", "rule": "import.not_allowed", "count": 7, "examples": [example]}
    moment = "2026-11-26T03:00:00.000000Z"
    addition = {"key": "imports.allowed", "name": HOSTILE, "count": 3, "first_at": moment, "last_at": moment}
    shown = render_page(
        "policy_review.html",
        title="Review",
        policy={"name": "nightly"},
        typed={"since": "7d", "batch": "", "label": ""},
        trial={
            "tried": 9, "total": 9, "would_fail": 7, "would_pass": 0, "undecided": 0, "left_out": 0,
            "changes": [{**change, "profile_key": "imports.allowed"}],
        },
        found={
            "helped": 1, "seen": 3, "toml": HOSTILE,
            "additions": [{**addition, "reason": None}], "withheld": [{**addition, "reason": "it guards"}],
        },
    ).body.decode()  # fmt: skip

    assert "<script>alert" not in shown
    assert shown.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 4
    assert "9 of 9 attempts tried: 7 would fail" in shown
    assert "it guards" in shown
