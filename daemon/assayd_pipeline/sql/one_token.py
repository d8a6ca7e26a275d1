r"""Finds a change of one word or sign that makes a statement valid for SQLite.

    SELECT id name city FROM t        a comma is missing before `name`
    SELECT name, city FORM t          Did you mean `FROM`?
    DELETE * FROM t WHERE …           `*` is too much
    INSERT INTO t (a) (1)             `VALUES` is missing
    WHERE id IN 1, 2                  parentheses are missing
    … ORDER BY a WHERE b = 1          `WHERE` comes before `ORDER BY`

The changes are tried near the word that SQLite reports, beginning with the most likely one, and each result
is prepared with the submission's tables. Therefore, SQLite accepts every proposed statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from assayd.guest.near import compute_edit_distance
from assayd.model.text_limits import shorten_text
from assayd_pipeline.sql.preparer import StatementPreparer
from assayd_pipeline.sql.read import InvalidSqlCharacter, SqlToken, SqlTokenKind, tokenize

MAX_TRIED = 250
"""Maximum number of changed statements to prepare for one rejected statement."""
_MAX_TOKENS = 400
_MAX_PLACES = 3
_NEAR = re.compile(r'near "(.+)": syntax error|^incomplete input$', re.DOTALL)
_KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "INSERT", "INTO", "VALUES",
    "UPDATE", "DELETE", "CREATE", "TABLE", "INDEX", "UNIQUE", "PRIMARY", "FOREIGN", "REFERENCES", "INTEGER",
    "DISTINCT", "EXISTS", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "JOIN", "INNER", "LEFT", "OUTER",
    "CROSS", "UNION", "INTERSECT", "EXCEPT", "WITH", "NULL", "LIKE", "DESC", "ASC", "OVER", "PARTITION", "BY",
    "ON", "AS", "IN", "IS", "NOT", "AND", "OR", "SET", "ALL", "ADD", "COLUMN", "DEFAULT", "CHECK", "CONFLICT",
)  # fmt: skip
_PAIRS = {
    first + second: f"{first} {second}"
    for first, second in (
        ("GROUP", "BY"), ("ORDER", "BY"), ("PARTITION", "BY"), ("INSERT", "INTO"), ("DELETE", "FROM"),
        ("IS", "NULL"), ("NOT", "NULL"), ("ISNOT", "NULL"), ("NOT", "IN"), ("LEFT", "JOIN"),
        ("INNER", "JOIN"), ("PRIMARY", "KEY"), ("FOREIGN", "KEY"), ("NOT", "EXISTS"), ("UNION", "ALL"),
    )
}  # fmt: skip
_KEYWORD_BY_WORD = {
    "&&": "AND",
    "||": "OR",
    "!": "NOT",
    "TO": "AND",
    "EQUALS": "=",
    "ELSIF": "WHEN",
    "ELSEIF": "WHEN",
}
_INSERTED_SIGNS = (",", "(", ")", "=", "*")
_INSERTED_WORDS = (
    "FROM", "ON", "AS", "SET", "INTO", "VALUES", "THEN", "WHEN", "JOIN", "AND", "END", "IN", "WHERE", "CASE",
    "DO",
)  # fmt: skip
_VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "WITH", "ALTER", "DROP")
_LISTS = ("IN", "VALUES", "OVER", "AS", "KEY", "USING", "EXISTS")
_REMOVABLE = (
    "FROM", "TABLE", "AS", "AND", "OR", "WHERE", "HAVING", "ON", "WITH", "INTO", "BY", "VALUES", "JOIN",
    "COLUMN", "NOT", "NULL", "ALL", "DISTINCT", "END", "THEN", "LIMIT", "OFFSET", "KEY",
)  # fmt: skip
_CLAUSES = (
    ("SET",), ("FROM",), ("WHERE",), ("GROUP", "BY"), ("HAVING",), ("WINDOW",), ("ORDER", "BY"), ("LIMIT",),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChange:
    """A change that makes a statement valid. `start` is its offset, and `new` is the whole statement."""

    start: int
    message: str
    hint: str
    new: str


def find_one_token_fix(statement: str, tables: StatementPreparer) -> TokenChange | None:
    """Return the most likely single change that lets SQLite prepare a statement, or None if none is found."""
    complaint = tables.find_error(statement)
    named = _NEAR.search(complaint or "")
    try:
        tokens = list(tokenize(statement))
    except InvalidSqlCharacter:
        return None
    if complaint is None or not tokens or len(tokens) > _MAX_TOKENS:
        return None
    if named is None:
        return _find_first_valid(_correct_semantic_errors(statement, tokens, complaint), tables)
    places = _find_error_positions(tokens, named[1])
    return _find_first_valid(
        chain(
            *(_respell_keywords(statement, tokens, place) for place in places),
            _separate_statements(statement, tokens, places),
            _complete_keyword_pairs(statement, tokens),
            _reorder_clauses(statement, tokens),
            *(_remove_comma(statement, tokens, place) for place in places),
            *(_remove_token(statement, tokens, place) for place in places),
            *(_insert_token(statement, tokens, place, _INSERTED_SIGNS) for place in places),
            *(_add_parentheses(statement, tokens, place) for place in places),
            *(_insert_token(statement, tokens, place, _INSERTED_WORDS) for place in places),
        ),
        tables,
    )


def _find_first_valid(tried: Iterator[TokenChange], tables: StatementPreparer) -> TokenChange | None:
    for number, change in enumerate(tried):
        if number == MAX_TRIED:
            return None
        if all(tables.find_error(part) is None for part in change.new.split("\0")):
            return TokenChange(
                start=change.start,
                message=change.message,
                hint=change.hint,
                new=change.new.replace("\0", ";\n"),
            )
    return None


def _find_error_positions(tokens: Sequence[SqlToken], named: str | None) -> list[int]:
    """Return the indexes of the tokens that SQLite reports or, without a report, the statement's end."""
    if named is None:
        return [len(tokens)]
    return [number for number, token in enumerate(tokens) if token.text == named][:_MAX_PLACES]


def _replace_token(statement: str, token: SqlToken, new: str) -> str:
    return f"{statement[: token.start]}{new}{statement[token.end :]}"


def _iter_nearby_positions(tokens: Sequence[SqlToken], place: int, *steps: int) -> Iterator[int]:
    return (place + step for step in steps if 0 <= place + step < len(tokens))


def _respell_keywords(statement: str, tokens: Sequence[SqlToken], place: int) -> Iterator[TokenChange]:
    """Yield changes that correct a keyword or operator, or that split two joined keywords."""
    for at in _iter_nearby_positions(tokens, place, 0, -1, 1, -2):
        token = tokens[at]
        word = token.text.upper()
        written = [_KEYWORD_BY_WORD[word]] if word in _KEYWORD_BY_WORD else []
        after = tokens[at + 1] if at + 1 < len(tokens) else token
        if word == "=" and after.text in {"<", ">"} and after.start == token.end:
            yield TokenChange(
                start=token.start,
                message=f"`={after.text}` isn't an operator of SQL.",
                hint=f"Write `{after.text}=`.",
                new=f"{statement[: token.start]}{after.text}={statement[after.end :]}",
            )
        if word == "WHERE" and any(each.is_any_of("WHERE") for each in tokens[:at]):
            yield TokenChange(
                start=token.start,
                message="The statement has a second `WHERE`.",
                hint="Join the conditions with `AND`.",
                new=_replace_token(statement, token, "AND"),
            )
        if token.kind is SqlTokenKind.WORD and len(word) > 1 and word not in _KEYWORDS:
            written += [_PAIRS[word]] if word in _PAIRS else []
            written += [
                key for key in _KEYWORDS if key != word and len(key) > 2 and _is_misspelling(word, key)
            ]
        for key in written:
            yield TokenChange(
                start=token.start,
                message=f"`{shorten_text(token.text, 40)}` isn't a word of SQL here.",
                hint=f"Did you mean `{key}`?",
                new=_replace_token(statement, token, key),
            )


def _is_misspelling(word: str, key: str) -> bool:
    return abs(len(word) - len(key)) <= 1 and compute_edit_distance(word, key) == 1


def _separate_statements(
    statement: str, tokens: Sequence[SqlToken], places: Sequence[int]
) -> Iterator[TokenChange]:
    """Yield two statements joined by a NUL character, at which callers split them to prepare both."""
    for at in sorted({each for place in places for each in _iter_nearby_positions(tokens, place, 0, -1)}):
        token = tokens[at]
        if at and token.is_any_of(*_VERBS):
            before = tokens[at - 1]
            yield TokenChange(
                start=before.start,
                message=f"No semicolon separates the statement before `{token.text}`.",
                hint=f"Put `;` before `{token.text}`.",
                new=f"{statement[: before.end]}\0{statement[token.start :]}",
            )


def _remove_comma(statement: str, tokens: Sequence[SqlToken], place: int) -> Iterator[TokenChange]:
    """Yield the changes that remove a comma near the reported position."""
    for at in _iter_nearby_positions(tokens, place, 0, -1, 1):
        token = tokens[at]
        if token.text == "," and not tokens[0].is_any_of("ALTER"):
            yield TokenChange(
                start=token.start,
                message="The comma is too much here.",
                hint="Remove the comma.",
                new=statement[: token.start] + statement[token.end :],
            )


def _remove_token(statement: str, tokens: Sequence[SqlToken], place: int) -> Iterator[TokenChange]:
    """Yield changes that remove a sign, a keyword, or a table's name before a column."""
    for at in _iter_nearby_positions(tokens, place, 0, -1, 1):
        token = tokens[at]
        removable = token.text.upper() in _REMOVABLE or token.text in "()*"
        if removable and not tokens[0].is_any_of("ALTER"):
            shown = f"`{token.text}`"
            dangling = token.is_any_of("AND", "OR", "WHERE", "HAVING") and tokens[0] is not token
            hint = f"Write a condition after {shown}, or remove it." if dangling else f"Remove {shown}."
            yield TokenChange(
                start=token.start,
                message=f"No condition follows {shown}." if dangling else f"`{token.text}` is too much here.",
                hint=hint,
                new=statement[: token.start] + statement[token.end :].lstrip(" "),
            )
    if 0 < place < len(tokens) - 1 and tokens[place].text == ".":
        table, column = tokens[place - 1], tokens[place + 1]
        yield TokenChange(
            start=table.start,
            message=f"`{table.text}.{column.text}`: SQLite allows no table before this column.",
            hint=f"Write `SET {column.text} = …`, without `{table.text}.`",
            new=re.sub(
                rf"(\bSET\s|,)(\s*){re.escape(table.text)}\.", r"\1\2", statement, flags=re.IGNORECASE
            ),
        )


def _add_parentheses(statement: str, tokens: Sequence[SqlToken], place: int) -> Iterator[TokenChange]:
    """Yield changes that enclose a list after `IN`, `VALUES`, `KEY` etc. in parentheses."""
    for at in _iter_nearby_positions(tokens, place, 0, -1, -2):
        before = tokens[at - 1] if at else tokens[0]
        if not at or not (before.is_any_of(*_LISTS) or tokens[0].is_any_of("INSERT", "CREATE")):
            continue
        for last in range(at, min(at + 20, len(tokens))):
            inside = statement[tokens[at].start : tokens[last].end]
            yield TokenChange(
                start=tokens[at].start,
                message=f"No parentheses are around `{shorten_text(inside, 40)}`.",
                hint=f"Put parentheses around it: `({shorten_text(inside, 80)})`.",
                new=f"{statement[: tokens[at].start]}({inside}){statement[tokens[last].end :]}",
            )


def _complete_keyword_pairs(statement: str, tokens: Sequence[SqlToken]) -> Iterator[TokenChange]:
    """Yield changes that insert the missing second word of, for example, `GROUP BY` or `PRIMARY KEY`."""
    for token, after in pairwise(tokens):
        second = _SECOND_BY_FIRST.get(token.text.upper())
        if second is not None and not after.is_any_of(second):
            yield TokenChange(
                start=token.start,
                message=f"`{second}` is missing after `{token.text}`.",
                hint=f"Write `{token.text} {second}`.",
                new=_replace_token(statement, token, f"{token.text} {second}"),
            )


_SECOND_BY_FIRST = {
    "GROUP": "BY",
    "ORDER": "BY",
    "PARTITION": "BY",
    "PRIMARY": "KEY",
    "FOREIGN": "KEY",
    "INSERT": "INTO",
}


def _insert_token(
    statement: str, tokens: Sequence[SqlToken], place: int, signs: Sequence[str]
) -> Iterator[TokenChange]:
    """Yield changes that insert a sign or keyword near the reported position, or at the end."""
    whole = list(tokens)
    for new in signs:
        for at in (place, place - 1, place + 1, place - 2):
            if not 0 < at <= len(whole):
                continue
            before, token = whole[at - 1], whole[at] if at < len(whole) else None
            if new == "," and (
                before.is_any_of(*_KEYWORDS) or (token is not None and token.is_any_of(*_KEYWORDS))
            ):
                continue
            shown = "a comma" if new == "," else f"`{new}`"
            where = "at the end" if token is None else f"before `{shorten_text(token.text, 40)}`"
            pair = whole[at - 2 : at + 1]
            if new == "," and len(pair) == 3 and all(_is_name(each) for each in pair):
                first, second, third = pair
                names = f"{first.text}, {second.text}, {third.text}"
                yield TokenChange(
                    start=first.start,
                    message=f"Commas are missing between {first.text}, {second.text} and {third.text}.",
                    hint=f"Separate columns with commas: `{names}`.",
                    new=f"{statement[: first.start]}{names}{statement[third.end :]}",
                )
            if new in {",", ")"}:
                text = f"{statement[: before.end]}{new}{statement[before.end :]}"
            else:
                text = f"{statement[: before.end]} {new} {statement[before.end :].lstrip(' ')}"
            yield TokenChange(
                start=before.start if new in {",", ")"} or token is None else token.start,
                message=f"{shown[:1].upper()}{shown[1:]} is missing {where}.",
                hint=f"Put {shown} {where}.",
                new=text.rstrip(),
            )


def _is_name(token: SqlToken) -> bool:
    return token.kind is SqlTokenKind.WORD and token.text.upper() not in _KEYWORDS


def _reorder_clauses(statement: str, tokens: Sequence[SqlToken]) -> Iterator[TokenChange]:
    """Yield the change that moves the clauses of a statement into the correct order."""
    depth, starts = 0, list[tuple[int, int]]()
    for number, token in enumerate(tokens):
        depth += token.is_any_of("(") - token.is_any_of(")")
        for rank, words in enumerate(_CLAUSES):
            follows = len(words) == 1 or (number + 1 < len(tokens) and tokens[number + 1].is_any_of(words[1]))
            if not depth and token.is_any_of(words[0]) and follows:
                starts.append((number, rank))
    ranks = [rank for _, rank in starts]
    if len(ranks) < 2 or len(set(ranks)) != len(ranks) or ranks == sorted(ranks):
        return
    places = [tokens[number].start for number, _ in starts]
    ends = [*places[1:], len(statement)]
    texts = [statement[start:end].strip() for start, end in zip(places, ends, strict=True)]
    gaps = ["\n" if "\n" in statement[tokens[n - 1].end : tokens[n].start] else " " for n, _ in starts]
    ordered = sorted(range(len(ranks)), key=ranks.__getitem__)
    body = "".join(
        f"{gaps[position] if position else ''}{texts[index]}" for position, index in enumerate(ordered)
    )
    wrong = next(n for n in range(1, len(ranks)) if ranks[n] < ranks[n - 1])
    early, late = (" ".join(_CLAUSES[ranks[n]]) for n in (wrong, wrong - 1))
    yield TokenChange(
        start=places[wrong],
        message=f"`{early}` comes after `{late}`.",
        hint=f"Put `{early}` before `{late}`.",
        new=statement[: places[0]] + body,
    )


def _correct_semantic_errors(
    statement: str, tokens: Sequence[SqlToken], complaint: str
) -> Iterator[TokenChange]:
    """Yield changes of statements with valid syntax, e.g. for `HAVING` without groups or no `FROM`."""
    for said, word, new, hint in _WORD_CORRECTIONS:
        for token in tokens if said in complaint else ():
            if token.is_any_of(word):
                yield TokenChange(
                    start=token.start, message="", hint=hint, new=_replace_token(statement, token, new)
                )
    if "no such column" in complaint and not any(token.is_any_of("FROM") for token in tokens):
        yield from _insert_from(statement, tokens)
    if "misuse of aggregate" in complaint:
        yield from _move_aggregate(statement)


_WORD_CORRECTIONS = (
    ("HAVING clause on a non-aggregate", "HAVING", "WHERE", "Write `WHERE`: `HAVING` is for groups."),
    ("NATURAL join may not have", "NATURAL", "", "Remove `NATURAL`: the join has a condition."),
)


def _insert_from(statement: str, tokens: Sequence[SqlToken]) -> Iterator[TokenChange]:
    for before, token in pairwise(tokens):
        if token.kind is SqlTokenKind.WORD and not before.is_any_of(",", "SELECT", "."):
            yield TokenChange(
                start=token.start,
                message=f"`FROM` is missing before `{token.text}`.",
                hint=f"Put `FROM` before `{token.text}`.",
                new=f"{statement[: token.start]}FROM {statement[token.start :]}",
            )


def _move_aggregate(statement: str) -> Iterator[TokenChange]:
    table = re.search(r"\bFROM\s+(\w+)", statement, re.IGNORECASE)
    called = _COMPARED_PATTERN.search(statement)
    if table is not None and called is not None:
        inner = f"(SELECT {called[2]} FROM {table[1]})"  # noqa: S608 - a proposal, never run
        yield TokenChange(
            start=called.start(2),
            message=f"`{called[2]}` isn't allowed in `WHERE`.",
            hint=f"Compute it in a subquery: `{inner}`.",
            new=f"{statement[: called.start(2)]}{inner}{statement[called.end(2) :]}",
        )


_COMPARED_PATTERN = re.compile(r"([=<>])\s*((?:max|min|avg|sum|count)\s*\([^()]*\))", re.IGNORECASE)
