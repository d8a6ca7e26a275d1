"""Parses ages in a form that people write, such as ``30m``, ``24h`` or ``7d``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from assayd.errors import RequestError

_AGE = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_age(text: str) -> timedelta | None:
    """Return the duration of an age such as ``24h``, or None if the text isn't an age."""
    parts = _AGE.fullmatch(text)
    return timedelta(**{_UNITS[parts[2]]: int(parts[1])}) if parts is not None else None


def to_api_time(text: str | None) -> str | None:
    """Return the time for an age or for an ISO 8601 time, in the API's format.

    Raises: RequestError ``usage``.
    """
    if text is None:
        return None
    age = parse_age(text)
    try:
        moment = datetime.fromisoformat(text) if age is None else datetime.now(UTC) - age
    except ValueError as error:
        raise RequestError("usage", f"{text!r} is neither an age like 24h nor a time") from error
    return moment.astimezone(UTC).isoformat()
