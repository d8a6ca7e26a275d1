"""The counts of repairs, and a repair's summary for a person."""

from __future__ import annotations

from assayd_client.cli.repair import compute_repair_statistics, iter_repair_lines

FIX = {
    "number": 1,
    "passage": "code",
    "attempt_id": "B",
    "duplicate": False,
    "verdict": "validated",
    "cause": "completed",
    "original_error": "It is\n  wrong.",
    "fix_reason": "A colon \x1b[31mwas missing.",
    "diff": "--- payload.code\n-if x\n+if x:\n",
    "duration_ms": 500.0,
}


def repair(outcome: str | None, *fixes: dict[str, object], **more: object) -> dict[str, object]:
    return {
        "id": "R",
        "attempt_id": "A",
        "kind": "code",
        "provider": "rules",
        "outcome": outcome,
        "state": "finished" if outcome else "running",
        "detail": None,
        "fallback": None,
        "attempts": list(fixes),
        "started_at": "2026-05-04T12:00:00.000Z",
        "finished_at": "2026-05-04T12:00:02.000Z",
        **more,
    }


def test_statistics_are_by_kind_and_provider_and_in_all() -> None:
    duplicate = {**FIX, "duplicate": True, "duration_ms": 1500.0}
    rows = compute_repair_statistics(
        [
            repair("repaired", FIX),
            repair("repaired", duplicate, FIX),
            repair("stuck", FIX),
            repair("exhausted", provider="other"),
            repair(None, FIX),
        ]
    )

    other, rules, every = rows if rows[0]["provider"] == "other" else (rows[1], rows[0], rows[2])
    assert rules | {"kind": "code", "provider": "rules"} == {
        "kind": "code", "provider": "rules", "ended": 3, "repaired": 2, "success_rate": 0.667,
        "first_attempt": 1, "first_attempt_rate": 0.333, "fixes": 4, "duplicates": 1, "stuck": 1,
        "fix_s": 0.75, "repaired_s": 2.0,
    }  # fmt: skip
    assert (other["success_rate"], other["fix_s"], other["repaired_s"]) == (0.0, None, None)
    assert (every["kind"], every["ended"], every["success_rate"]) == ("all", 4, 0.5)


def test_nothing_ended_gives_no_statistics() -> None:
    assert compute_repair_statistics([repair(None)]) == []


def test_repair_is_told_attempt_by_attempt_without_what_a_terminal_obeys() -> None:
    lines = list(iter_repair_lines(repair("repaired", FIX)))

    assert "1. code: validated  B" in lines
    assert "   failed: It is" in lines
    assert "   reason: A colon \N{REPLACEMENT CHARACTER}[31mwas missing." in lines
    assert lines[-5:] == ["   --- code", "   -if x", "   +if x:", "", "Repair: repaired"]


def test_change_of_a_single_file_is_shown_under_its_name() -> None:
    assert "   --- src/x.py" in list(iter_repair_lines(repair("repaired", FIX), "src/x.py"))
