"""Internal errors, as exceptions.

Submitted code that fails is never one of these: it is a Finding or a Cause.

    AssaydError
    ├── ConfigError     settings, policy files and image recipes that cannot be used
    ├── RequestError    a request that is refused; carries the field that is at fault
    ├── EngineError     the container engine failed, hung, or ignored a request
    ├── StoreError      the database or the artifact directory failed
    └── ProviderError   a repair provider failed

`code` is stable snake_case with a dot for the area; `retryable` tells whether the same call may go
through later. HTTP status and exit code are mapped from `code` in `api` and `cli`, one table each.
"""


class AssaydError(Exception):
    """Base class of all exceptions that this project raises.

    Args:
        code: stable identifier, e.g. ``engine.unreachable``.
        message: one sentence for a person, with the remedy if one exists.
        field: the request or file field at fault, e.g. ``payload.code``.
        retryable: whether trying the same again later can succeed.
    """

    def __init__(self, code: str, message: str, *, field: str | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.retryable = retryable


class ConfigError(AssaydError):
    """A setting, policy file or recipe can't be used."""


class RequestError(AssaydError):
    """A request was refused; nothing was accepted."""


class EngineError(AssaydError):
    """The container engine failed, hung, or ignored a request."""


class StoreError(AssaydError):
    """The database or the artifact directory failed."""


class ProviderError(AssaydError):
    """A repair provider failed.

    Args:
        retry_after_s: how long the provider asks to be left alone.
    """

    def __init__(
        self, code: str, message: str, *, retryable: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(code, message, retryable=retryable)
        self.retry_after_s = retry_after_s
