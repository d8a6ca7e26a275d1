"""A replacement for `contextlib.suppress` that doesn't import other modules."""

from __future__ import annotations

from . import private

private.isolate_builtins(globals())


class suppress:  # noqa: N801 - as it is called there
    """A context manager that suppresses exceptions of the given types that its block raises."""

    __slots__ = ("_kinds",)

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, self._kinds)
