"""Options, arguments and exit codes that several commands share, and the clients of commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from assayd.errors import AssaydError, RequestError
from assayd_client import Conflict, DaemonUnreachable, NotFound, PlainClient, QueueFull, Refused, Target

_AGE = re.compile(r"(\d{1,6})([smhd])")
_UNIT_BY_SUFFIX = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
VALIDATED = 0
FAILED = 1
REFUSED = 2
EXIT_ERROR = 3
UNREACHABLE = 4
CANCELLED = 5
UNSIGNED = 6
"""The attestation to verify doesn't exist."""
INTERRUPTED = 130
"""A keyboard interrupt with nothing to cancel: the exit code that shells expect."""
EXIT_BROKEN_PIPE = 141
"""The output pipe is closed, e.g. by `| head`: 128 plus the number of SIGPIPE, as shells expect."""
EXIT_CODE_BY_VERDICT: Mapping[str, int] = {
    "validated": VALIDATED,
    "failed": FAILED,
    "error": EXIT_ERROR,
    "cancelled": CANCELLED,
}


def parse_age(text: str) -> timedelta | None:
    """Return the duration of an age such as ``24h``, or None if the text isn't an age."""
    parts = _AGE.fullmatch(text)
    return timedelta(**{_UNIT_BY_SUFFIX[parts[2]]: int(parts[1])}) if parts is not None else None


def to_api_time(text: str | None) -> str | None:
    """Return the time for an age or for an ISO 8601 time, in the API's format, or None for None.

    Raises: RequestError ``usage``, if the text is neither.
    """
    if text is None:
        return None
    age = parse_age(text)
    try:
        moment = datetime.fromisoformat(text) if age is None else datetime.now(UTC) - age
    except ValueError as error:
        raise RequestError("usage", f"{text!r} is neither an age like 24h nor a time") from error
    return moment.astimezone(UTC).isoformat()


AttemptId = Annotated[str, typer.Argument(metavar="ID", help="Attempt: id, unique id prefix, or `last`.")]
Fields = Annotated[
    str | None,
    typer.Option(
        "--fields", metavar="A,B.C", help="Print only these fields as JSON, e.g. verdict,report.findings."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Junit = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Write a JUnit report; - is standard output."),
]


def get_selected_daemon(context: typer.Context) -> Target:
    """Return the daemon that the command line selects, or None to use the environment."""
    target: Target = context.find_root().obj
    return target


def open_client(context: typer.Context) -> PlainClient:
    """Return a client of the daemon that the command line selects."""
    return PlainClient(get_selected_daemon(context))


def exit_code(error: AssaydError) -> int:
    """Return the exit code for an error: UNREACHABLE, REFUSED for a rejected request, or TROUBLE."""
    if isinstance(error, DaemonUnreachable):
        return UNREACHABLE
    refused = isinstance(error, RequestError | Refused | NotFound | Conflict | QueueFull)
    return REFUSED if refused else EXIT_ERROR
