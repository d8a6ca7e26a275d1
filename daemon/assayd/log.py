"""Configures the daemon's log: structured events, one per line, on standard error.

This module defines only the format. Each caller names events (``noun.past_verb``) and adds keys, which
never contain source code, prompts or tokens. The ids of a request and of an attempt are bound once, so that
every related line contains them.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, TextIO, cast

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, Processor, WrappedLogger

from assayd.model.trace_context import TraceContext

REQUEST_ID = "request_id"
"""The key of the request's id in every log line."""

_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
"""The priorities of syslog(3), which the journal reads from the start of a line (sd-daemon(3))."""

_BASE_PROCESSORS: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    structlog.processors.StackInfoRenderer(),
)
# Libraries that log every request or migration step at level info.
_QUIET_LOGGERS = (
    "alembic",
    "aiosqlite",
    "sqlalchemy",
    "docker",
    "urllib3",
    "uvicorn.access",
    "httpx",
    "httpcore",
)


def configure_logging(
    level: str = "info", form: Literal["json", "console"] = "json", out: TextIO | None = None
) -> None:
    """Write the daemon's events and the libraries' log records to one stream in one format.

    Args:
        level: the lowest level to write: debug, info, warning or error.
        form: ``json`` for programs, ``console`` for people.
        out: the stream. Default: standard error.
    """
    least = logging.getLevelNamesMapping()[level.upper()]
    stream = out or sys.stderr
    handler = logging.StreamHandler(stream)
    prepare, render = _build_log_processors(form)
    last = _prepend_priority(render) if is_journal(stream) else render
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_BASE_PROCESSORS,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *prepare, last],
        )
    )
    logging.basicConfig(handlers=[handler], level=least, force=True)
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(max(least, logging.WARNING))
    # It warns of connections that it doesn't keep, which is harmless.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    # Our loggers bypass the library's records, which take twice as long per line.
    structlog.configure(
        processors=[*_BASE_PROCESSORS, *prepare, last],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", _LossyStream(stream))),
        cache_logger_on_first_use=True,
    )


class _LossyStream:
    """A stream that drops lines that can't be written, because a log failure must not end an attempt."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write to the underlying stream. Ignore failures."""
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Flush the underlying stream. Ignore failures."""
        with suppress(OSError):
            self._stream.flush()


def get_current_request_id() -> str | None:
    """Return the id of the current request, or None if no request is being processed."""
    bound = structlog.contextvars.get_contextvars().get(REQUEST_ID)
    return bound if isinstance(bound, str) else None


def build_trace_log_fields(context: TraceContext | None) -> dict[str, str]:
    """Return the log fields that identify the current span. The result is empty if tracing is off."""
    return {} if context is None else {"trace_id": context.trace_id, "span_id": context.span_id}


def is_journal(stream: TextIO) -> bool:
    """Return whether a stream is systemd's journal, according to ``JOURNAL_STREAM`` (systemd.exec(5))."""
    named = os.environ.get("JOURNAL_STREAM")
    if not named:
        return False
    try:
        facts = os.fstat(stream.fileno())
    except OSError:  # a stream without a descriptor
        return False
    return named == f"{facts.st_dev}:{facts.st_ino}"


def _build_log_processors(form: Literal["json", "console"]) -> tuple[tuple[Processor, ...], Processor]:
    """Return the functions that prepare an event, and the function that renders it."""
    # Local variables may hold submitted source, or a key; both forms omit them.
    if form == "console":
        plain = structlog.dev.plain_traceback
        return (), structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)
    tracebacks = ExceptionDictTransformer(show_locals=False)
    return (structlog.processors.ExceptionRenderer(tracebacks),), structlog.processors.JSONRenderer()


def _prepend_priority(render: Processor) -> Processor:
    """Wrap a renderer so that each line begins with its priority in the journal's syntax."""
    as_text = cast("Callable[[WrappedLogger, str, EventDict], str]", render)

    def rendered(logger: WrappedLogger, name: str, event: EventDict) -> str:
        mark = f"<{_PRIORITIES.get(event.get('level', ''), 6)}>"
        return "\n".join(mark + line for line in as_text(logger, name, event).splitlines())

    return rendered
