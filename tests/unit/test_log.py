from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from assayd import log


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def test_event_is_one_json_line_with_bound_keys() -> None:
    out = io.StringIO()
    log.configure("info", "json", out)
    structlog.get_logger().bind(attempt_id="01X").info("attempt.received", kind="code")
    line = json.loads(out.getvalue())
    assert line.pop("at").endswith("Z")
    assert line == {"event": "attempt.received", "attempt_id": "01X", "kind": "code", "level": "info"}


def test_record_of_a_library_has_the_same_form() -> None:
    out = io.StringIO()
    log.configure("info", "json", out)
    logging.getLogger("uvicorn.error").warning("went %s", "wrong")
    assert json.loads(out.getvalue())["event"] == "went wrong"


def test_events_below_the_level_are_not_written() -> None:
    out = io.StringIO()
    log.configure("warning", "json", out)
    structlog.get_logger().info("attempt.received")
    assert out.getvalue() == ""


def test_exception_is_written_into_the_same_line() -> None:
    out = io.StringIO()
    log.configure("info", "json", out)
    try:
        int("no")
    except ValueError:
        structlog.get_logger().exception("attempt.failed")
    assert json.loads(out.getvalue())["exception"][0]["exc_type"] == "ValueError"


def test_console_form_is_for_reading() -> None:
    out = io.StringIO()
    log.configure("info", "console", out)
    structlog.get_logger().info("daemon.started", pid=1)
    assert "daemon.started" in out.getvalue()
    assert "pid=1" in out.getvalue()
