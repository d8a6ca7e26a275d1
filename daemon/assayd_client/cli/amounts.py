"""How amounts are written for people."""

from __future__ import annotations


def duration(milliseconds: float) -> str:
    """Write a duration the way a person reads it."""
    if milliseconds < 100:
        return f"{milliseconds:.1f}ms"
    return f"{milliseconds:.0f}ms" if milliseconds < 1000 else f"{milliseconds / 1000:.2f}s"


def age(seconds: float) -> str:
    """Write how old something is in its largest unit: ``5min``, ``3h``, ``12d``."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit:.0f}{name}"
    return "now"


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
