"""Exceptions for internal errors.

A failure of submitted code is never reported as one of these exceptions, but as a `Finding` or a `Cause`.

    AssaydError
    ├── ConfigError     settings, policy files and image recipes that cannot be used
    ├── RequestError    a request that is refused; carries the field that is at fault
    ├── EngineError     the container engine failed, hung, or ignored a request
    ├── StoreError      the database or the artifact directory failed
    └── ProviderError   a repair provider failed

`code` is a stable identifier in snake_case, with a dot after the area; `retryable` is True if the same call
may succeed later. `api` has a table that maps codes to HTTP statuses, and `cli` has a table that maps them
to exit codes.
"""


class AssaydError(Exception):
    """The base class of all exceptions that this project raises.

    Args:
        code: stable identifier, e.g. ``engine.unreachable``.
        message: one sentence for a person, with the remedy if one exists.
        field: the field of the request or file that caused the error, e.g. ``payload.code``.
        retryable: whether the same call can succeed later.
    """

    def __init__(self, code: str, message: str, *, field: str | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.retryable = retryable


class ConfigError(AssaydError):
    """An exception raised when a setting, policy file or recipe can't be used."""


class RequestError(AssaydError):
    """An exception raised when a request was refused. No part of the request was accepted."""


class EngineError(AssaydError):
    """An exception raised when the container engine failed, hung, or ignored a request."""


class StoreError(AssaydError):
    """An exception raised when the database or the artifact directory failed."""


class ProviderError(AssaydError):
    """An exception raised when a repair provider failed.

    Args:
        retry_after_s: the number of seconds that the provider requires before the next call, or None.
    """

    def __init__(
        self, code: str, message: str, *, retryable: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(code, message, retryable=retryable)
        self.retry_after_s = retry_after_s
