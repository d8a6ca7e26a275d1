"""The daemon's log: structured, one event per line, on standard error.

Decides the form only. Events are named where they happen (``noun.past_verb``) and carry keys; source code,
prompts and tokens are never among them.
"""

from __future__ import annotations

import logging
import sys
from typing import Literal, TextIO

import structlog
from structlog.typing import Processor

_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    structlog.processors.StackInfoRenderer(),
)
# Libraries that would tell of every request or migration step at info.
_QUIET = ("alembic", "aiosqlite", "sqlalchemy", "docker", "urllib3", "uvicorn.access", "httpx", "httpcore")


def configure(
    level: str = "info", form: Literal["json", "console"] = "json", out: TextIO | None = None
) -> None:
    """Send our events and the libraries' records to one stream in one form.

    Args:
        level: least level written: debug, info, warning, error.
        form: ``json`` for machines, ``console`` for reading.
        out: the stream; standard error unless given.
    """
    least = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler(out or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_render(form)],
        )
    )
    logging.basicConfig(handlers=[handler], level=least, force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(least, logging.WARNING))
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _render(form: Literal["json", "console"]) -> tuple[Processor, ...]:
    if form == "console":
        return (structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),)
    return (structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer())
