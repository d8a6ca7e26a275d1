"""What commands print on a terminal of 80 and of 120 columns, compared with what was looked at once.

UPDATE_GOLDEN=1 writes the files again. The daemon is a fake without repairs: `show` says so at its end.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from assayd_client import PlainClient
from assayd_client.cli import app, main
from assayd_client.cli.terminal import measure_display_width
from support.daemons.fake_service import FakeService
from support.daemons.server import serving

FOLDER = Path(__file__).parent / "golden"
GOOD = {"kind": "extractor", "payload": {"code": "x = 1", "sample_paths": ["/a"]}}
LABELS = {"file": "quarter.py", "category": "weather", "platform": "open_meteo", "run": "nightly-2026-05-04"}
COMMANDS = (
    "list",
    "list --wide",
    "show last",
    "doctor",
    "policy list",
    "kinds",
    "artifacts last",
    "validate extracter quarter.py",
    "validate",
    "shwo",
)


class Terminal(io.StringIO):
    """A person's standard output and error."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def socket(tmp_path: Path) -> str:
    service = FakeService()
    with serving(service, tmp_path / "s") as path, PlainClient(path) as client:
        client.submit({**GOOD, "labels": LABELS}, wait_s=5)
        service.outcome = "failed_at_run"
        client.submit({**GOOD, "labels": LABELS}, wait_s=5)
        yield str(path)


@pytest.mark.parametrize("columns", [80, 120])
def test_output_fits_the_terminal_and_is_as_it_was_looked_at(
    columns: int, socket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    for command in COMMANDS:
        terminal.write(f"$ assay {command}\n")
        main(["--socket", socket, *command.split()])
        terminal.write("\n")
    shown = terminal.getvalue()
    if os.environ.get("UPDATE_GOLDEN"):
        (FOLDER / f"terminal_{columns}.txt").write_text(shown)

    assert shown == (FOLDER / f"terminal_{columns}.txt").read_text()
    assert max(map(measure_display_width, shown.split("\n"))) <= columns


@pytest.mark.parametrize("command", app.EXAMPLES)
def test_missing_argument_comes_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == 2
    assert capsys.readouterr().err.endswith(f"\nExample: assay {command} {app.EXAMPLES[command]}\n")
