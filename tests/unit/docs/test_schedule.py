"""The timer and the cron line in docs/scheduled-pipelines.md: their form and their command."""

from __future__ import annotations

import re
import shlex
from configparser import ConfigParser
from pathlib import Path

import pytest

from assayd_client.cli import main

PAGE = (Path(__file__).resolve().parents[3] / "docs/scheduled-pipelines.md").read_text()
UNITS = re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)
CRON = re.findall(r"```cron\n(.*?)\n```", PAGE, re.DOTALL)


def unit(text: str) -> ConfigParser:
    parser = ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    return parser


def commands() -> list[list[str]]:
    service, _ = map(unit, UNITS)
    lines = [service["Service"]["ExecStart"], *CRON]
    return [shlex.split(line.partition("/usr/bin/assay ")[2]) for line in lines]


def test_service_runs_once_and_the_timer_starts_it_every_day() -> None:
    service, timer = map(unit, UNITS)

    assert service["Service"]["Type"] == "oneshot"
    assert re.fullmatch(r"\*-\*-\* \d\d:\d\d:00", timer["Timer"]["OnCalendar"])
    assert timer["Install"]["WantedBy"] == "timers.target"
    names = re.findall(r"^# (.*)/([a-z]+)\.(service|timer)$", PAGE, re.MULTILINE)
    assert [(name, kind) for _, name, kind in names] == [("sales", "service"), ("sales", "timer")]


def test_cron_line_has_five_fields_and_no_percent_sign() -> None:
    [line] = CRON
    assert re.match(r"([\d*]+ ){5}chronic /", line)
    assert "%" not in line


@pytest.mark.parametrize("number", [0, 1])
def test_scheduled_command_has_options_that_exist(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    words = commands()[number]

    assert words[:3] == ["pipeline", "run", "sales"]
    assert main([*words, "--help"]) == 0
    assert "Usage: assay pipeline run" in capsys.readouterr().out
