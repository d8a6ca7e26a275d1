"""Text of others that is given back as it was, whatever is in it: PostgreSQL refuses the character NUL."""

from __future__ import annotations

import re

from sqlalchemy import Dialect, Text
from sqlalchemy.types import TypeDecorator

_MARK = "\x1a"
_MARKED = re.compile(f"{_MARK}(.)", re.DOTALL)
_WRITTEN = str.maketrans({"\0": f"{_MARK}0", _MARK: f"{_MARK}1"})


def written(text: str) -> str:
    """Return a text as it is sent to a server, as value or to be compared: NUL as two other characters."""
    return text.translate(_WRITTEN) if "\0" in text or _MARK in text else text


def was_written(text: str) -> str:
    """Return the text that was given to `written`."""
    if _MARK not in text:
        return text
    return _MARKED.sub(lambda found: "\0" if found[1] == "0" else _MARK, text)


class ExactText(TypeDecorator[str]):
    """Text that may hold any character, and is read as it was before `written`."""

    impl = Text
    cache_ok = True

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text of what was written."""
        return value if value is None or dialect.name == "sqlite" else was_written(value)
