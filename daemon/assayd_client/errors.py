"""What a caller of the client has to treat differently, each as a class.

    ClientError
    ├── NotFound            it doesn't exist, or belongs to another user
    ├── Conflict            it is finished already, or the id stands for another submission
    ├── Refused             the request itself is wrong: malformed, invalid, too large, not allowed
    ├── QueueFull           the queue, a quota or an examination has no place now; `retry_after_s`
    ├── NotReady            the daemon runs and can't run attempts now; `retry_after_s`
    └── DaemonUnreachable   no answer, or an end in the middle of one

A plain ClientError is the daemon's own failure. `retryable` says whether a retry can help.
"""

from __future__ import annotations

from assayd.errors import AssaydError


class ClientError(AssaydError):
    """A request failed. `status` is HTTP's status; 0 without an answer."""

    def __init__(
        self, code: str, message: str, *, status: int = 0, field: str | None = None, retryable: bool = False
    ) -> None:
        super().__init__(code, message, field=field, retryable=retryable)
        self.status = status


class NotFound(ClientError):
    """The object doesn't exist, or belongs to another user."""


class Conflict(ClientError):
    """The state of an object forbids the request: it has ended, or its id belongs to another submission."""


class Refused(ClientError):
    """The request is invalid or not allowed; repeating it changes nothing."""


class Later(ClientError):
    """Base class of errors for which the request can be repeated after `retry_after_s` seconds."""

    retry_after_s: float = 1.0


class QueueFull(Later):
    """The queue or a quota is full, or the daemon is being examined; retry after `retry_after_s` seconds."""


class NotReady(Later):
    """The daemon can't run attempts now; try again after `retry_after_s` seconds."""


class DaemonUnreachable(ClientError):
    """The daemon doesn't answer, or the connection broke before the end of its answer."""


def error_class(status: int) -> type[ClientError]:
    """Return the class of error for an HTTP status."""
    known = {404: NotFound, 409: Conflict, 429: QueueFull, 503: NotReady}
    usual = Refused if 400 <= status < 500 else ClientError
    return known.get(status, usual)
