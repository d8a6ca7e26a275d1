"""What an API gave, as far as all of them have it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from assayd.model.repair import ReplyCost

MOST_TOKENS = 2**53


class Ending(StrEnum):
    """Why a model stopped."""

    COMPLETE = "complete"
    """It had said what it wanted."""
    CUT_OFF = "cut_off"
    """The answer met its limit of tokens."""
    REFUSED = "refused"
    """The model, or a filter before or behind it, does not want to."""
    EMPTY = "empty"
    """There is no answer, and nothing says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAnswer:
    """What an API gave. `word` is its own for the ending."""

    text: str
    ending: Ending
    word: str = ""
    usage: ReplyCost = ReplyCost()


def tokens(value: object) -> int | None:
    """Read a count of tokens; what is none, or none that anybody could have used, is not known."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None
