"""Finds unknown names, and constructs whose meaning in SQLite differs from the intended one.

WHERE city = NULL           never true               edit: city IS NULL
WHERE status = "paid"       text, since no column    edit: 'paid'
SELECT name + ' of ' …      a number                 edit: name || ' of '
SELECT id total FROM t      an alias                 edit: id, total
SELECT totl FROM t          no such column           edit: total
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from assayd.guest.near import find_nearest
from assayd_pipeline.sql.dialects import MOST_CHARS, ExplainedConstruct, explain_rejected, mask_literals
from assayd_pipeline.sql.preparer import StatementPreparer

_NULL_PATTERN = re.compile(r"\s*(=|==|<>|!=)\s*NULL\b", re.IGNORECASE)
_CLAUSE_PATTERN = re.compile(r"\b(SET|WHERE|ON|HAVING|WHEN|VALUES|SELECT)\b", re.IGNORECASE)
_PLUS_PATTERN = re.compile(r"'[^'\d][^']*'\s*(\+)|(\+)\s*'[^'\d][^']*'")
_SET_AND_PATTERN = re.compile(
    r"\bSET\b(?:(?!\b(?:WHERE|CASE|BETWEEN)\b).)*?=(?:(?!\b(?:WHERE|CASE|BETWEEN)\b).)*?(\s+AND)\s+\w+\s*=",
    re.IGNORECASE | re.DOTALL,
)
_DOUBLE = re.compile(r"(?:=|<>|!=|\bLIKE|\bIN\s*\(|,)\s*(\"[^\"\n]{1,100}\")", re.IGNORECASE)
_AFTER_REGEX = r"ON\b|USING\b|WHERE\b|GROUP\b|ORDER\b|LIMIT\b|JOIN\b|LEFT\b|INNER\b"
_JOIN = re.compile(
    r"(?<!CROSS )(?<!NATURAL )\b(?:INNER\s+|LEFT\s+|LEFT\s+OUTER\s+)?JOIN\s+\w+"
    rf"(?:\s+(?:AS\s+)?(?!{_AFTER_REGEX})\w+)?\s*(?=$|;|\bWHERE\b|\bGROUP\b|\bORDER\b|\bLIMIT\b)",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"\bCREATE\s+TABLE\b[^;]*?(\s+COMMENT\s+·+)", re.IGNORECASE)
_ALIAS = re.compile(r"\b(\w+)[ \t]+(\w+)(?=\s*(?:,|\bFROM\b))", re.IGNORECASE)
_MISSING = re.compile(r"no such (column|table|function): (?:[^\s.]+\.)*[\"`\[]?([^\s.\"`\]]+)")
_AMBIGUOUS = re.compile(r"ambiguous column name: (\w+)")
_SOURCE = re.compile(rf"\b(?:FROM|JOIN)\s+(\w+)(?:\s+(?:AS\s+)?(?!{_AFTER_REGEX})(\w+))?", re.IGNORECASE)


def explain_unpreparable(
    statement: str, complaint: str, tables: StatementPreparer
) -> ExplainedConstruct | None:
    """Explain why SQLite can't prepare a statement, or return None without an explanation."""
    if len(statement) > MOST_CHARS:
        return None
    return (
        _explain_name(statement, complaint, tables)
        or _explain_value_count(statement, complaint, tables)
        or explain_rejected(statement, tables)
        or _explain_unknown(statement, complaint, tables)
    )


def explain_misinterpretations(
    statement: str, tables: Callable[[], StatementPreparer | None]
) -> Iterator[ExplainedConstruct]:
    """Yield explanations of constructs that SQLite accepts, but whose meaning isn't the intended one."""
    if len(statement) > MOST_CHARS:
        return
    masked = mask_literals(statement)
    for found in _NULL_PATTERN.finditer(masked):
        clauses = _CLAUSE_PATTERN.findall(masked[: found.start()])
        if clauses and clauses[-1].upper() in {"WHERE", "ON", "HAVING", "WHEN"}:
            word = "IS NULL" if "!" not in found[1] and "<" not in found[1] else "IS NOT NULL"
            hint = f"Write `{word}`."
            yield _build_explanation(statement, found.start(), found.end(), f" {word}", hint, "is never true")
    if (joined := _PLUS_PATTERN.search(statement)) is not None and "+" in masked:
        place = joined.start(1) if joined[1] else joined.start(2)
        new = "".join("||" if sign == "+" and masked[n] == "+" else sign for n, sign in enumerate(statement))
        hint = "Join text with `||`: `+` adds numbers, and text counts as 0."
        of = "adds numbers instead of joining text"
        yield ExplainedConstruct(start=place, written="+", of=of, hint=hint, new=new)
    if (both := _SET_AND_PATTERN.search(masked)) is not None:
        hint = "Separate assignments with a comma: `AND` makes one condition of them."
        yield _build_explanation(
            statement, both.start(1), both.end(1), ",", hint, "makes one condition of two assignments"
        )
    if (comment := _COMMENT.search(masked)) is not None:
        hint = "SQLite has no comments on columns. Remove it, or write `-- …` at the end of the line."
        yield _build_explanation(
            statement, comment.start(1), comment.end(1), "", hint, "becomes part of the column's type"
        )
    if (join := _JOIN.search(masked)) is not None:
        hint = "Add the condition: `ON left.key = right.key`; for all pairs, write `CROSS JOIN`."
        yield ExplainedConstruct(
            start=join.start(), written=join[0].strip(), of="joins every row with every row", hint=hint
        )
    selected = masked[: masked.upper().find("FROM") + 4]
    needed = _DOUBLE.search(masked) is not None or _ALIAS.search(selected) is not None
    if needed and (known := tables()) is not None:
        yield from _explain_by_tables(statement, masked, known)


def _explain_by_tables(
    statement: str, masked: str, tables: StatementPreparer
) -> Iterator[ExplainedConstruct]:
    for found in _DOUBLE.finditer(masked):
        word = found[1][1:-1]
        bracketed = f"{statement[: found.start(1)]}[{word}]{statement[found.end(1) :]}"
        if "no such column" in (tables.find_error(bracketed) or ""):
            text = "'" + word.replace("'", "''") + "'"
            hint = f"Put text in single quotes: `{text}`. Double quotes are for names."
            yield _build_explanation(
                statement, *found.span(1), text, hint, "is text only because no column has that name"
            )
    columns = {each.lower() for each in tables.names("column")}
    selected = masked[: masked.upper().find("FROM") + 4]
    for found in _ALIAS.finditer(selected):
        if found[1].lower() in columns and found[2].lower() in columns:
            hint = f"Put a comma between them: `{found[1]}, {found[2]}`. For another name, write `AS`."
            yield _build_explanation(
                statement,
                found.end(1),
                found.end(1),
                ",",
                hint,
                f"shows {found[1]} under the name {found[2]}",
            )


def _build_explanation(
    statement: str, start: int, end: int, new: str, hint: str, of: str
) -> ExplainedConstruct:
    return ExplainedConstruct(
        start=start,
        written=statement[start:end].strip() or statement[start : start + 20].strip(),
        of=of,
        hint=hint,
        new=statement[:start] + new + statement[end:],
    )


def _explain_name(statement: str, complaint: str, tables: StatementPreparer) -> ExplainedConstruct | None:
    """Explain a name that is unknown to SQLite or ambiguous, or return None if no explanation is known."""
    if (twice := _AMBIGUOUS.search(complaint)) is not None:
        return _qualify_column(statement, twice[1], tables)
    missing = _MISSING.search(complaint)
    if missing is None:
        return None
    kind, name = missing.groups()
    qualifier = re.search(r"no such column: (\w+)\.(\w+)$", complaint)
    if (
        qualifier is not None
        and (one := _correct_prefix(statement, qualifier[1], qualifier[2], tables)) is not None
    ):
        return one
    masked = mask_literals(statement)
    place = re.search(rf"(?<![\w\"`\[]){re.escape(name)}(?![\w\"`\]])", masked, re.IGNORECASE)
    known = tables.names(kind)
    near = find_nearest(name, [each.lower() if each.islower() else each for each in known])
    if place is not None and near is not None:
        new = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", near[0], statement)
        good = tables.find_error(new) is None
        return ExplainedConstruct(
            start=place.start(),
            written="",
            of="",
            hint=f"Did you mean `{near[0]}`?",
            new=new if good else None,
        )
    quoted = re.search(rf"(?:[`\"\[]{re.escape(name)}[`\"\]]|(?<=[=(,]\s){re.escape(name)}\b)", masked)
    if kind == "column" and quoted is not None:
        new = f"{statement[: quoted.start()]}'{name}'{statement[quoted.end() :]}"
        if tables.find_error(new) is None:
            hint = f"Put text in single quotes: `'{name}'`."
            said = f"No column is named `{name}`; text needs single quotes."
            return ExplainedConstruct(
                start=quoted.start(), written=said, of="", hint=hint, new=new, said=True
            )
    return None


def _correct_prefix(
    statement: str, table: str, name: str, tables: StatementPreparer
) -> ExplainedConstruct | None:
    """Replace a table's name before a column by the alias that the statement defines.

    Return None if no replacement makes the statement valid.
    """
    for found in _SOURCE.finditer(statement):
        alias = found[2] or found[1]
        new = re.sub(rf"(?<![\w.]){re.escape(table)}\.", f"{alias}.", statement)
        if alias != table and tables.find_error(new) is None:
            written = f"{table}.{name}"
            known = found[1].lower() == table.lower()
            of = f"has the alias `{alias}` here" if known else "isn't a table or an alias of the statement"
            return ExplainedConstruct(
                start=statement.find(f"{table}."),
                written=f"`{written}`: `{table}` {of}.",
                of="",
                hint=f"Write `{alias}.{name}`.",
                new=new,
                said=True,
            )
    return None


def _explain_value_count(
    statement: str, complaint: str, tables: StatementPreparer
) -> ExplainedConstruct | None:
    """Explain an `INSERT` whose numbers of values and columns differ, or return None for other errors."""
    found = _COUNTS.search(complaint)
    into = _INTO.search(statement)
    if found is None or into is None:
        return None
    columns = tables.names(f"column of {into[1]}")
    given = [one.strip() for one in (into[2] or "").split(",") if one.strip()] or columns
    values = int(found[1] or found[2])
    names = (
        given[:values] if values <= len(given) else [*given, *(one for one in columns if one not in given)]
    )
    head = f"INSERT INTO {into[1]} ({', '.join(names[:values])})"
    new = f"{statement[: into.start()]}{head} {statement[into.end() :].lstrip(' ')}"
    good = tables.find_error(new) is None
    return ExplainedConstruct(
        start=into.start(),
        written=f"The row has {values} values for {len(given)} columns ({', '.join(given[:8])}).",
        of="",
        hint=f"Name as many columns as values: `{head}`, or supply {len(given)} values.",
        new=new if good else None,
        said=True,
    )


_COUNTS = re.compile(r"has \d+ columns but (\d+) values|(\d+) values for \d+ columns")
_INTO = re.compile(
    r"\bINSERT\s+(?:OR\s+\w+\s+)?INTO\s+(\w+)\s*(?:\(([^()]*)\))?(?=\s*(?:VALUES|SELECT)\b)",
    re.IGNORECASE,
)


def _explain_unknown(statement: str, complaint: str, tables: StatementPreparer) -> ExplainedConstruct | None:
    """Explain a name without similar names, or wrong arguments of a function; otherwise return None."""
    missing = _MISSING.search(complaint) or _NO_COLUMN.search(complaint)
    arguments = _ARGUMENTS.search(complaint)
    if arguments is not None:
        usage = _CALL_SYNTAX.get(arguments[1].lower())
        place = re.search(rf"\b{re.escape(arguments[1])}\s*\(", statement, re.IGNORECASE)
        hint = f"Write `{usage}`." if usage else f"Check the arguments of `{arguments[1]}`."
        return ExplainedConstruct(start=place.start() if place else 0, written="", of="", hint=hint)
    if (window := _WINDOW.search(complaint)) is not None:
        return _explain_window_filter(statement, window[1], tables)
    if missing is None:
        return None
    kind, name = missing.groups()
    place = re.search(
        rf"(?<![\w\"`\[]){re.escape(name)}(?![\w\"`\]])", mask_literals(statement), re.IGNORECASE
    )
    start = place.start() if place is not None else 0
    if kind == "function":
        hint = f"SQLite has no `{name}`. Use `CASE`, `substr`, `instr`, `replace`, `strftime` or `printf`."
        return ExplainedConstruct(start=start, written="", of="", hint=hint)
    if kind == "table":
        known = ", ".join(tables.names("table")[:10])
        return ExplainedConstruct(
            start=start, written="", of="", hint=f"The tables are: {known}." if known else ""
        )
    sources = [found[1] for found in _SOURCE.finditer(statement)] or re.findall(
        r"(?i)\b(?:INTO|UPDATE)\s+(\w+)", statement
    )
    owners = [
        each
        for each in tables.names("table")
        if name.lower() in map(str.lower, tables.names(f"column of {each}"))
    ]
    if "generate_series" in sources:
        hint = "The column of `generate_series` is `value`."
    elif owners and owners[0] not in sources:
        hint = f"`{name}` is a column of `{owners[0]}`. Join it: `JOIN {owners[0]} ON …`."
    else:
        shown = "; ".join(
            f"{each} ({', '.join(tables.names(f'column of {each}')[:12])})" for each in sources[:3]
        )
        hint = f"Use a column of this statement's tables: {shown}." if shown else ""
    return ExplainedConstruct(start=start, written="", of="", hint=hint) if hint else None


_NO_COLUMN = re.compile(r"has no (column) named (\S+)")
_ARGUMENTS = re.compile(r"wrong number of arguments to function (\w+)\(\)")
_WINDOW = re.compile(r"misuse of aliased window function (\w+)")
_CALL_SYNTAX = {
    "round": "round(number, digits)",
    "substr": "substr(text, start, count)",
    "substring": "substring(text, start, count)",
    "replace": "replace(text, old, new)",
    "instr": "instr(text, part)",
    "coalesce": "coalesce(value, default)",
    "ifnull": "ifnull(value, default)",
    "nullif": "nullif(value, other)",
    "iif": "iif(condition, a, b)",
    "strftime": "strftime('%Y-%m', day)",
    "count": "count(*)` or `count(DISTINCT value)",
    "sum": "sum(value)",
    "avg": "avg(value)",
    "length": "length(text)",
    "upper": "upper(text)",
    "lower": "lower(text)",
    "julianday": "julianday(day)",
    "group_concat": "group_concat(value, ', ')",
    "lag": "lag(value, 1) OVER (ORDER BY …)",
    "lead": "lead(value, 1) OVER (ORDER BY …)",
}


def _explain_window_filter(
    statement: str, alias: str, tables: StatementPreparer
) -> ExplainedConstruct | None:
    """Explain a `WHERE` on a window function, which must be outside the `SELECT` with the function.

    Return None if the statement has another form.
    """
    found = _FILTERED.match(statement)
    if found is None:
        return None
    rest = f"{found[2]}{found[3] or ''}"
    new = f"SELECT * FROM ({found[1]}) WHERE {rest}"  # noqa: S608 - a proposal, never run
    good = tables.find_error(new) is None
    return ExplainedConstruct(
        start=found.start(2),
        written=f"`{alias}` is a window function: `WHERE` runs before it.",
        of="",
        hint=f"Filter outside of a subquery: `SELECT * FROM (…) WHERE {found[2].strip()}`.",  # noqa: S608
        new=new if good else None,
        said=True,
    )


_FILTERED = re.compile(r"(?is)^(SELECT\b.*?\bFROM\b.*?)\s+WHERE\s+(.*?)(\s+ORDER\s+BY\b.*)?$")


def _qualify_column(statement: str, name: str, tables: StatementPreparer) -> ExplainedConstruct | None:
    """Add the name of the first table to a column that exists in several tables.

    Return None if no table or column is found in the statement.
    """
    sources = [found[2] or found[1] for found in _SOURCE.finditer(statement)]
    place = re.search(rf"(?<![\w.]){re.escape(name)}\b", statement)
    if not sources or place is None:
        return None
    written = " or ".join(f"`{source}.{name}`" for source in sources[:3])
    new = f"{statement[: place.start()]}{sources[0]}.{statement[place.start() :]}"
    good = tables.find_error(new) is None
    return ExplainedConstruct(
        start=place.start(),
        written=f"Several tables have a column `{name}`.",
        of="",
        hint=f"Name its table: {written}.",
        new=new if good else None,
        said=True,
    )
