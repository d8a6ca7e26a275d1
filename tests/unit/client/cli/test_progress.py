from assayd_client import StreamEvent
from assayd_client.cli.submitting import ProgressView


def shown(*events: tuple[str, dict]) -> list[str]:
    progress = ProgressView("extractor")
    for number, (kind, body) in enumerate(events, 1):
        progress.apply(StreamEvent(id=f"1.{number}", kind=kind, at="", body=body))
    return [line.plain for line in progress.lines()]


def test_at_first_it_waits() -> None:
    assert shown() == ["▸ waiting for a turn"]


def test_stages_and_the_running_path_are_shown() -> None:
    assert shown(
        ("state", {"state": "checking"}),
        ("stage", {"name": "syntax", "status": "passed", "duration_ms": 0.4, "findings": 0}),
        ("stage", {"name": "security", "status": "warned", "duration_ms": 1, "findings": 2}),
        ("state", {"state": "running"}),
        ("unit", {"name": "/a", "index": 3, "total": 5, "status": "started"}),
    ) == ["├─ syntax    ✓ 0.4ms", "└─ security  ⚠ 1.0ms  2 findings", "▸ sandbox ▸ 3/5 paths"]


def test_an_event_that_it_does_not_know_changes_nothing() -> None:
    assert shown(("something", {"state": "x"})) == shown()


def test_what_the_code_prints_is_shown_while_it_runs() -> None:
    assert shown(
        ("state", {"state": "running"}),
        ("stdout", {"text": "one\ntw"}),
        ("stderr", {"text": "o\x1b[2J\n"}),
    ) == ["▸ running", "  │ one", "  │ two\\x1b[2J"]


def test_of_much_that_is_printed_the_end_is_shown() -> None:
    lines = shown(
        ("stdout", {"text": "".join(f"{n}\n" for n in range(100))}), ("stdout", {"text": "x" * 5000})
    )
    assert lines[1:-1] == [f"  │ {n}" for n in range(93, 100)]
    assert len(lines[-1]) == 4 + 1000
