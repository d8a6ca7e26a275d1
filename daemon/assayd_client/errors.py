"""Defines an exception class for each kind of failure that callers handle differently.

    ClientError
    ├── NotFound            the object doesn't exist, or belongs to another user
    ├── Conflict            the object has ended, or its id belongs to another submission
    ├── Refused             the request is unacceptable: malformed, invalid, too large, not allowed
    ├── QueueFull           the queue or a quota is full, or an examination is running; `retry_after_s`
    ├── NotReady            the daemon is running but can't run attempts now; `retry_after_s`
    └── DaemonUnreachable   no answer, or a connection that broke during the answer

A ClientError that doesn't belong to a subclass reports an internal failure of the daemon. `retryable` is
True if a retry can succeed.
"""

from __future__ import annotations

from assayd.errors import AssaydError


class ClientError(AssaydError):
    """The base class of the errors of requests.

    `status` is the HTTP status, or 0 if the daemon didn't respond.
    """

    def __init__(
        self, code: str, message: str, *, status: int = 0, field: str | None = None, retryable: bool = False
    ) -> None:
        super().__init__(code, message, field=field, retryable=retryable)
        self.status = status


class NotFound(ClientError):
    """An error raised if the object doesn't exist or belongs to another user."""


class Conflict(ClientError):
    """An error raised if an object has already ended, or if its id belongs to another submission."""


class Refused(ClientError):
    """An error raised if the request is invalid or not allowed, so that a retry can't succeed."""


class Later(ClientError):
    """The base class of errors after which the request can be repeated in `retry_after_s` seconds."""

    retry_after_s: float = 1.0


class QueueFull(Later):
    """An error raised if the queue or a quota is full, or if an examination is running.

    The request can be retried.
    """


class NotReady(Later):
    """An error raised if the daemon can't run attempts now. The request can be retried."""


class DaemonUnreachable(ClientError):
    """An error raised if the daemon doesn't respond, or if the connection fails during the response."""


def select_error_class(status: int) -> type[ClientError]:
    """Return the error class for an HTTP status, by default Refused for 4xx and ClientError for others."""
    known = {404: NotFound, 409: Conflict, 429: QueueFull, 503: NotReady}
    usual = Refused if 400 <= status < 500 else ClientError
    return known.get(status, usual)
