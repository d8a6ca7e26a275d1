import pytest

from assayd_chains.decide import compute_fingerprint, remove_variable_parts


def report(*findings: dict[str, object], stage: str = "sandbox") -> dict[str, object]:
    return {"stage_reached": stage, "findings": list(findings), "runtime_results": None}


def error(rule: str, message: str, line: int = 1) -> dict[str, object]:
    return {"rule": rule, "severity": "error", "message": message, "line": line}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("invalid literal for int() with base 10: 'Q1'", "invalid literal for int() with base 0: …"),
        ("bash: line 3: /tmp/x/a.csv: No such file", "bash: line 0: /: No such file"),
        ("object at 0x7f3a", "object at 0"),
        ("a\n  b", "a b"),
    ],
)
def test_what_varies_is_blanked(message, expected) -> None:
    assert remove_variable_parts(message) == expected


def test_a_failure_that_moved_to_another_line_with_another_value_is_the_same() -> None:
    first = report(error("sandbox.raised", "ValueError: invalid literal for int(): 'Q1'", 12))
    again = report(error("sandbox.raised", "ValueError: invalid literal for int(): 'Q7'", 19))
    assert compute_fingerprint(first) == compute_fingerprint(again)


@pytest.mark.parametrize(
    "other",
    [
        report(error("sandbox.timeout", "ValueError: bad")),
        report(error("sandbox.raised", "KeyError: bad")),
        report(error("sandbox.raised", "ValueError: bad"), stage="quality"),
        report(error("sandbox.raised", "ValueError: bad"), error("import.not_allowed", "os")),
    ],
)
def test_another_rule_message_stage_or_number_of_findings_is_another_failure(other) -> None:
    assert compute_fingerprint(report(error("sandbox.raised", "ValueError: bad"))) != compute_fingerprint(
        other
    )


def test_warnings_do_not_count() -> None:
    warning = {**error("quality.some_empty", "two are empty"), "severity": "warning"}
    failure = error("sandbox.raised", "ValueError: bad")
    assert compute_fingerprint(report(failure)) == compute_fingerprint(report(warning, failure))
