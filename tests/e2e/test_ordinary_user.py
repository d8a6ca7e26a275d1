"""`assay` as an ordinary user, with a daemon whose state directory only its own user may open."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from assayd_client import PlainClient
from support.daemons.daemon_fixtures import needs_root
from support.daemons.daemon_process import BIN, DaemonProcess
from support.hosts.ordinary_user import UID, run_as_ordinary_user

pytestmark = needs_root

GOOD = 'def extract(path: str) -> dict:\n    return {"client": path.split("/")[1]}\n'
BAD = 'def extract(path: str) -> dict:\n    return {"client": paths}\n'
PROJECT = '[[file]]\nmatch = "good.py"\nkind = "extractor"\nsample_paths = ["/acme/a.csv"]\n'
LINE = {"kind": "extractor", "payload": {"code": GOOD, "sample_paths": ["/acme/a.csv"]}}

Assay = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def home(daemon: DaemonProcess) -> Path:
    """Return an ordinary user's folder with files to submit."""
    assert (daemon.state.stat().st_uid, daemon.state.stat().st_mode & 0o777) == (0, 0o700)
    home = daemon.home / "user"
    home.mkdir()
    for name, text in {
        "good.py": GOOD, "bad.py": BAD, ".assay.toml": PROJECT, "lines.jsonl": json.dumps(LINE)
    }.items():  # fmt: skip
        (home / name).write_text(text)
    for path in (home, *home.iterdir()):
        os.chown(path, UID, UID)
    return home


@pytest.fixture(scope="module")
def assay(daemon: DaemonProcess, home: Path) -> Assay:
    """Return a function that runs `assay` as the user."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environ = {"ASSAY_SOCKET": str(daemon.socket), "HOME": str(home)}
        return run_as_ordinary_user([BIN / "assay", *words], cwd=home, environ=environ)

    return run


def validated(assay: Assay, *words: str, file: str = "good.py") -> subprocess.CompletedProcess[str]:
    return assay("validate", "extractor", file, "--sample-path", "/acme/a.csv", *words)


def test_report_of_a_daemon_that_keeps_its_state_to_itself_names_how_files_are_fetched(assay: Assay) -> None:
    done = validated(assay)

    attempt = done.stdout.split()[0]
    assert (done.returncode, done.stderr) == (0, "")
    assert f"assay artifacts {attempt} --extract DIR\n" in done.stdout
    shown = assay("show", attempt)
    assert (shown.returncode, shown.stderr, shown.stdout) == (0, "", done.stdout)


def test_failed_submission_ends_with_one(assay: Assay) -> None:
    done = validated(assay, file="bad.py")
    assert (done.returncode, done.stderr) == (1, "")
    assert "--> bad.py:2" in done.stdout


@pytest.fixture(scope="module")
def attempt(assay: Assay) -> str:
    """Return the id of a validated attempt of the user."""
    return validated(assay).stdout.split()[0]


# For each line, its exit code: 2 where it is the operator's, or where a file may not be read; 3 where the
# client asks the container engine itself.
LINES = {
    "list": 0,
    "logs {attempt}": 0,
    "events {attempt}": 0,
    "artifacts {attempt}": 0,
    "replay {attempt}": 0,
    "metrics": 0,
    "top --once": 0,
    "kinds": 0,
    "check": 0,
    "check good.py": 0,
    "policy list": 0,
    "policy check": 0,
    "batch run lines.jsonl": 0,
    "library approve {attempt} months": 0,
    "library list": 0,
    "repair list": 0,
    "validate extractor good.py --sample-path /a --junit - ": 0,
    "validate extractor good.py --sample-path /a/b --sarif -": 0,
    "gc": 2,
    "backup copy": 2,
    "images list": 3,
    "validate extractor {state}/x.py --sample-path /a": 2,
    "validate extractor good.py --sample-path /a --cases {state}/x.json": 2,
    "check {state}/x.py": 2,
    "batch run {state}/x.jsonl": 2,
    "policy check {state}/x.toml": 2,
    "--socket {state}/s list": 4,
}


def test_doctor_is_refused_until_an_operator_has_asked_and_answers_then(
    assay: Assay, daemon: DaemonProcess
) -> None:
    first = assay("doctor")
    assert "Traceback" not in first.stderr
    assert first.returncode in {0, 2}  # 0 if an operator has asked this daemon before

    with PlainClient(str(daemon.socket)) as operator:
        operator.doctor()
    assert assay("doctor").returncode == 0


@pytest.mark.parametrize("line", LINES)
def test_line_ends_without_a_traceback(line: str, assay: Assay, attempt: str, daemon: DaemonProcess) -> None:
    done = assay(*line.format(state=daemon.state, attempt=attempt).split())

    assert "Traceback" not in done.stderr
    assert done.returncode == LINES[line], done.stderr
    assert done.stderr.count("\n") == (1 if done.returncode else 0) or line.startswith("batch")
