from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
import structlog

from assayd import log


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    handlers, level, configured = logging.root.handlers[:], logging.root.level, structlog.get_config()
    yield
    structlog.configure(**configured)
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def test_event_is_one_json_line_with_bound_keys() -> None:
    out = io.StringIO()
    log.configure_logging("info", "json", out)
    structlog.get_logger().bind(attempt_id="01X").info("attempt.received", kind="code")
    line = json.loads(out.getvalue())
    assert line.pop("at").endswith("Z")
    assert line == {"event": "attempt.received", "attempt_id": "01X", "kind": "code", "level": "info"}


def test_record_of_a_library_has_the_same_form() -> None:
    out = io.StringIO()
    log.configure_logging("info", "json", out)
    logging.getLogger("uvicorn.error").warning("went %s", "wrong")
    assert json.loads(out.getvalue())["event"] == "went wrong"


def test_line_that_cannot_be_written_is_dropped_and_the_next_is_not() -> None:
    out = _Full()
    log.configure_logging("info", "json", out)
    structlog.get_logger().info("attempt.received")
    out.full = False
    structlog.get_logger().info("attempt.finished")
    assert json.loads(out.getvalue())["event"] == "attempt.finished"


class _Full(io.StringIO):
    """A stream on a disk that is full for a while."""

    full = True

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(28, "No space left on device")
        return super().write(text)


def test_events_below_the_level_are_not_written() -> None:
    out = io.StringIO()
    log.configure_logging("warning", "json", out)
    structlog.get_logger().info("attempt.received")
    assert out.getvalue() == ""


def test_exception_is_written_into_the_same_line() -> None:
    out = io.StringIO()
    log.configure_logging("info", "json", out)
    try:
        int("no")
    except ValueError:
        structlog.get_logger().exception("attempt.failed")
    assert json.loads(out.getvalue())["exception"][0]["exc_type"] == "ValueError"


@pytest.mark.parametrize("form", ["json", "console"])
def test_local_variables_are_never_part_of_an_exception(form) -> None:
    out = io.StringIO()
    log.configure_logging("info", form, out)
    key = "sk-" + "live"  # so that no line of source holds it
    try:
        int("no", base=len(key))
    except ValueError:
        structlog.get_logger().exception("attempt.failed")
    assert "ValueError" in out.getvalue()
    assert key not in out.getvalue()


def test_console_form_is_for_reading() -> None:
    out = io.StringIO()
    log.configure_logging("info", "console", out)
    structlog.get_logger().info("daemon.started", pid=1)
    assert "daemon.started" in out.getvalue()
    assert "pid=1" in out.getvalue()


@pytest.mark.parametrize("form", ["json", "console"])
def test_traceback_shows_no_values(form: Literal["json", "console"]) -> None:
    out = io.StringIO()
    log.configure_logging("info", form, out)
    submitted = " ".join(("def", "extract():", "take()"))
    try:
        submitted.index("nothing")
    except ValueError:
        structlog.get_logger().exception("attempt.failed")
    assert "ValueError" in out.getvalue()
    assert "def extract" not in out.getvalue()


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a file that the service manager declares as its journal."""
    path = tmp_path / "journal"
    with path.open("w") as out:
        facts = os.fstat(out.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{facts.st_dev}:{facts.st_ino}")
        log.configure_logging("debug", "json", out)
        yield path


def test_line_for_the_journal_begins_with_its_priority(journal: Path) -> None:
    logger = structlog.get_logger()
    for name in ("debug", "info", "warning", "error", "critical"):
        getattr(logger, name)("daemon.spoke")
    logging.getLogger("uvicorn.error").error("went wrong")

    lines = journal.read_text().splitlines()

    assert [line[:3] for line in lines] == ["<7>", "<6>", "<4>", "<3>", "<2>", "<3>"]
    assert json.loads(lines[0][3:])["event"] == "daemon.spoke"


def test_every_line_for_the_journal_has_a_priority(journal: Path) -> None:
    log.configure_logging("info", "console", logging.root.handlers[0].stream)
    structlog.get_logger().error("daemon.spoke", stack_info=True)
    assert len(journal.read_text().splitlines()) > 1
    assert all(line.startswith("<3>") for line in journal.read_text().splitlines())


def test_stream_that_is_not_the_journal_has_no_priorities(tmp_path: Path, journal: Path) -> None:
    with (tmp_path / "other").open("w") as other:
        log.configure_logging("info", "json", other)
        structlog.get_logger().info("daemon.spoke")
    assert (tmp_path / "other").read_text().startswith("{")
