"""Defines the exit codes of `assay` and the errors to which they correspond."""

from __future__ import annotations

from collections.abc import Mapping

from assayd.errors import AssaydError, RequestError
from assayd_client import Conflict, DaemonUnreachable, NotFound, QueueFull, Refused

VALIDATED = 0
FAILED = 1
REFUSED = 2
TROUBLE = 3
UNREACHABLE = 4
CANCELLED = 5
UNSIGNED = 6
"""The attestation to verify is missing."""
INTERRUPTED = 130
"""By the keyboard, while nothing was there to cancel: what a shell expects."""
READER_GONE = 141
"""The reader of the output is gone, as after `| head`: 128 and SIGPIPE's number, as shells expect."""

OF_VERDICT: Mapping[str, int] = {
    "validated": VALIDATED,
    "failed": FAILED,
    "error": TROUBLE,
    "cancelled": CANCELLED,
}


def exit_code(error: AssaydError) -> int:
    """Return the exit code that indicates the cause of an error."""
    if isinstance(error, DaemonUnreachable):
        return UNREACHABLE
    refused = isinstance(error, RequestError | Refused | NotFound | Conflict | QueueFull)
    return REFUSED if refused else TROUBLE
