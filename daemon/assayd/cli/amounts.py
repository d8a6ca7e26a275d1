"""How amounts are written for people."""

from __future__ import annotations


def duration(milliseconds: float) -> str:
    """Write a duration the way a person reads it."""
    if milliseconds < 100:
        return f"{milliseconds:.1f}ms"
    return f"{milliseconds:.0f}ms" if milliseconds < 1000 else f"{milliseconds / 1000:.2f}s"


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
