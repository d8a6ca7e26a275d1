from assayd_client.cli.repair import iter_offer_lines

FALLBACK = {
    "trigger": "timeout",
    "reason": "The code exceeds its time limit.",
    "rules": "extract:\n  year:\n    from: segment(-2)\n",
    "notes": {},
    "applied": {
        "paths": 2,
        "complete": 1,
        "shown": [
            {"path": "/2024/a", "fields": {"year": 2024}, "missing": []},
            {"path": "/\x1b[2J/a", "fields": {}, "missing": ["year"]},
        ],
    },
    "accepted_at": None,
}


def test_offer_is_told_with_what_it_gives_and_how_it_is_taken() -> None:
    told = "\n".join(iter_offer_lines("01R", FALLBACK))
    assert "   extract:\n     year:" in told
    assert "for 1 of 2 sample paths" in told
    assert "'/2024/a': year=2024" in told
    assert "nothing for 'year'" in told
    assert told.endswith("assay repair accept 01R")
    assert "\x1b" not in told


def test_offer_that_was_taken_says_when() -> None:
    taken = {**FALLBACK, "accepted_at": "2026-05-04T10:20:30.000000Z"}
    assert list(iter_offer_lines("01R", taken))[-1] == "Accepted at 2026-05-04T10:20:30.000000Z"
