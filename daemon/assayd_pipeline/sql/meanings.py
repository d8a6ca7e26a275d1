"""Finds what SQLite accepts and reads otherwise than meant, and names that it doesn't know.

WHERE city = NULL           never true               edit: city IS NULL
WHERE status = "paid"       text, since no column    edit: 'paid'
SELECT name + ' of ' …      a number                 edit: name || ' of '
SELECT id total FROM t      an alias                 edit: id, total
SELECT totl FROM t          no such column           edit: total
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from assayd.guest.near import nearest
from assayd_pipeline.sql.dialects import MOST_CHARS, Explained, explain, masked_text
from assayd_pipeline.sql.preparer import Prepared

_NULL = re.compile(r"\s*(=|==|<>|!=)\s*NULL\b", re.IGNORECASE)
_CLAUSE = re.compile(r"\b(SET|WHERE|ON|HAVING|WHEN|VALUES|SELECT)\b", re.IGNORECASE)
_PLUS = re.compile(r"'[^'\d][^']*'\s*(\+)|(\+)\s*'[^'\d][^']*'")
_SET_AND = re.compile(
    r"\bSET\b(?:(?!\b(?:WHERE|CASE|BETWEEN)\b).)*?=(?:(?!\b(?:WHERE|CASE|BETWEEN)\b).)*?(\s+AND)\s+\w+\s*=",
    re.IGNORECASE | re.DOTALL,
)
_DOUBLE = re.compile(r"(?:=|<>|!=|\bLIKE|\bIN\s*\(|,)\s*(\"[^\"\n]{1,100}\")", re.IGNORECASE)
_AFTER = r"ON\b|USING\b|WHERE\b|GROUP\b|ORDER\b|LIMIT\b|JOIN\b|LEFT\b|INNER\b"
_JOIN = re.compile(
    r"(?<!CROSS )(?<!NATURAL )\b(?:INNER\s+|LEFT\s+|LEFT\s+OUTER\s+)?JOIN\s+\w+"
    rf"(?:\s+(?:AS\s+)?(?!{_AFTER})\w+)?\s*(?=$|;|\bWHERE\b|\bGROUP\b|\bORDER\b|\bLIMIT\b)",
    re.IGNORECASE,
)
_ALIAS = re.compile(r"\b(\w+)[ \t]+(\w+)(?=\s*(?:,|\bFROM\b))", re.IGNORECASE)
_MISSING = re.compile(r"no such (column|table|function): (?:[^\s.]+\.)*[\"`\[]?([^\s.\"`\]]+)")
_AMBIGUOUS = re.compile(r"ambiguous column name: (\w+)")
_SOURCE = re.compile(rf"\b(?:FROM|JOIN)\s+(\w+)(?:\s+(?:AS\s+)?(?!{_AFTER})(\w+))?", re.IGNORECASE)


def refused(statement: str, complaint: str, tables: Prepared) -> Explained | None:
    """Explain a statement that SQLite doesn't prepare."""
    if len(statement) > MOST_CHARS:
        return None
    return _name(statement, complaint, tables) or explain(statement, tables)


def misread(statement: str, tables: Callable[[], Prepared | None]) -> Iterator[Explained]:
    """Return what SQLite accepts in a statement and reads otherwise than meant."""
    if len(statement) > MOST_CHARS:
        return
    masked = masked_text(statement)
    for found in _NULL.finditer(masked):
        clauses = _CLAUSE.findall(masked[: found.start()])
        if clauses and clauses[-1].upper() in {"WHERE", "ON", "HAVING", "WHEN"}:
            word = "IS NULL" if "!" not in found[1] and "<" not in found[1] else "IS NOT NULL"
            hint = f"Write `{word}`."
            yield _changed(statement, found.start(), found.end(), f" {word}", hint, "is never true")
    if (joined := _PLUS.search(statement)) is not None and "+" in masked:
        place = joined.start(1) if joined[1] else joined.start(2)
        new = "".join("||" if sign == "+" and masked[n] == "+" else sign for n, sign in enumerate(statement))
        hint = "Join text with `||`: `+` adds numbers, and text counts as 0."
        of = "adds numbers instead of joining text"
        yield Explained(start=place, written="+", of=of, hint=hint, new=new)
    if (both := _SET_AND.search(masked)) is not None:
        hint = "Separate assignments with a comma: `AND` makes one condition of them."
        yield _changed(
            statement, both.start(1), both.end(1), ",", hint, "makes one condition of two assignments"
        )
    if (join := _JOIN.search(masked)) is not None:
        hint = "Add the condition: `ON left.key = right.key`; for all pairs, write `CROSS JOIN`."
        yield Explained(
            start=join.start(), written=join[0].strip(), of="joins every row with every row", hint=hint
        )
    selected = masked[: masked.upper().find("FROM") + 4]
    needed = _DOUBLE.search(masked) is not None or _ALIAS.search(selected) is not None
    if needed and (known := tables()) is not None:
        yield from _by_tables(statement, masked, known)


def _by_tables(statement: str, masked: str, tables: Prepared) -> Iterator[Explained]:
    for found in _DOUBLE.finditer(masked):
        word = found[1][1:-1]
        bracketed = f"{statement[: found.start(1)]}[{word}]{statement[found.end(1) :]}"
        if "no such column" in (tables.complaint(bracketed) or ""):
            text = "'" + word.replace("'", "''") + "'"
            hint = f"Put text in single quotes: `{text}`. Double quotes are for names."
            yield _changed(
                statement, *found.span(1), text, hint, "is text only because no column has that name"
            )
    columns = {each.lower() for each in tables.names("column")}
    selected = masked[: masked.upper().find("FROM") + 4]
    for found in _ALIAS.finditer(selected):
        if found[1].lower() in columns and found[2].lower() in columns:
            hint = f"Put a comma between them: `{found[1]}, {found[2]}`. For another name, write `AS`."
            yield _changed(
                statement,
                found.end(1),
                found.end(1),
                ",",
                hint,
                f"shows {found[1]} under the name {found[2]}",
            )


def _changed(statement: str, start: int, end: int, new: str, hint: str, of: str) -> Explained:
    return Explained(
        start=start,
        written=statement[start:end].strip() or statement[start : start + 20].strip(),
        of=of,
        hint=hint,
        new=statement[:start] + new + statement[end:],
    )


def _name(statement: str, complaint: str, tables: Prepared) -> Explained | None:
    """Explain a name that SQLite doesn't know, or knows twice."""
    if (twice := _AMBIGUOUS.search(complaint)) is not None:
        return _qualified(statement, twice[1], tables)
    missing = _MISSING.search(complaint)
    if missing is None:
        return None
    kind, name = missing.groups()
    masked = masked_text(statement)
    place = re.search(rf"(?<![\w\"`\[]){re.escape(name)}(?![\w\"`\]])", masked, re.IGNORECASE)
    known = tables.names(kind)
    near = nearest(name, [each.lower() if each.islower() else each for each in known])
    if place is not None and near is not None:
        new = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", near[0], statement)
        good = tables.complaint(new) is None
        return Explained(
            start=place.start(),
            written="",
            of="",
            hint=f"Did you mean `{near[0]}`?",
            new=new if good else None,
        )
    quoted = re.search(rf"(?:[`\"\[]{re.escape(name)}[`\"\]]|(?<=[=(,]\s){re.escape(name)}\b)", masked)
    if kind == "column" and quoted is not None:
        new = f"{statement[: quoted.start()]}'{name}'{statement[quoted.end() :]}"
        if tables.complaint(new) is None:
            hint = f"Put text in single quotes: `'{name}'`."
            return Explained(start=quoted.start(), written=quoted[0], of="names a column", hint=hint, new=new)
    return None


def _qualified(statement: str, name: str, tables: Prepared) -> Explained | None:
    """Put the first table before a column that several tables have."""
    sources = [found[2] or found[1] for found in _SOURCE.finditer(statement)]
    place = re.search(rf"(?<![\w.]){re.escape(name)}\b", statement)
    if not sources or place is None:
        return None
    written = " or ".join(f"`{source}.{name}`" for source in sources[:3])
    new = f"{statement[: place.start()]}{sources[0]}.{statement[place.start() :]}"
    good = tables.complaint(new) is None
    return Explained(
        start=place.start(),
        written=name,
        of="is a column of several tables",
        hint=f"Name its table: {written}.",
        new=new if good else None,
    )
