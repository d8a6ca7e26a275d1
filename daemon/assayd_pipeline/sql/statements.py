"""Splits the SQL of a step into statements, each with its tokens and its position.

A statement ends at a semicolon, except for semicolons in the body of a trigger. The first word determines
the type of a statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from assayd_pipeline.sql.tokens import SqlToken


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStatement:
    """One statement. `number` is 1-based; there is at least one token, and no final semicolon."""

    number: int
    tokens: tuple[SqlToken, ...]

    @property
    def verb(self) -> str:
        """Return the first word of the statement in upper case."""
        return self.tokens[0].text.upper()

    @property
    def is_trigger(self) -> bool:
        """Return whether the statement creates a trigger."""
        return _begins_trigger(self.tokens)

    def after(self, *words: str) -> SqlToken | None:
        """Return the token after these words at the statement's start; None if it starts differently."""
        if len(self.tokens) <= len(words):
            return None
        begins = all(token.says(word) for token, word in zip(self.tokens, words, strict=False))
        return self.tokens[len(words)] if begins else None


def split(tokens: Iterable[SqlToken]) -> Iterator[SqlStatement]:
    """Yield the statements that aren't empty."""
    held: list[SqlToken] = []
    number = 0
    for token in tokens:
        if not token.says(";") or _is_inside_trigger(held):
            held.append(token)
            continue
        if held:
            number += 1
            yield SqlStatement(number=number, tokens=tuple(held))
        held = []
    if held:
        yield SqlStatement(number=number + 1, tokens=tuple(held))


def _is_inside_trigger(held: list[SqlToken]) -> bool:
    """Return whether a semicolon after these tokens is in a trigger's body; it ends with ``; END``."""
    return _begins_trigger(held) and not (held[-1].says("END") and held[-2].says(";"))


def _begins_trigger(tokens: tuple[SqlToken, ...] | list[SqlToken]) -> bool:
    if not tokens or not tokens[0].says("CREATE"):
        return False
    place = 2 if len(tokens) > 1 and tokens[1].says("TEMP", "TEMPORARY") else 1
    return len(tokens) > place and tokens[place].says("TRIGGER")
