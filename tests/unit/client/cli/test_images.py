"""The audit log lines of `assay images`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assayd.audit import AuditLog
from assayd_client.cli.images import _record_adoption


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAYD_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def test_adoption_is_noted_beside_a_running_daemon(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = AuditLog(state / "audit")
    log.note("daemon.started", actor={"daemon": "01D"}, subject="1")

    _record_adoption("ruby", "sha256:1", "/images/ruby")

    entry = json.loads(list(log.read())[-1])
    assert (entry["action"], entry["subject"], entry["digest"]) == ("image.adopted", "ruby", "sha256:1")
    assert capsys.readouterr().err == ""


def test_adoption_without_a_daemons_log_is_told(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _record_adoption("ruby", "sha256:1", "/images/ruby")

    said = capsys.readouterr().err
    assert said == f"the adoption isn't in the audit log {state}/audit: no daemon writes one there\n"


def test_adoption_that_cannot_be_noted_is_told(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state / "audit").mkdir(parents=True)
    (state / "audit/audit-000001.jsonl").mkdir()

    _record_adoption("ruby", "sha256:1", "/images/ruby")

    assert "Is a directory" in capsys.readouterr().err
