"""Adds functions of the `sqlite3` shell for statements: REGEXP, readfile() and generate_series().

`readfile` reads only files below `data/`. If `generate_series(a, b, c)` is used as a table, it is replaced
with a recursive query that has the same rows; its arguments can't refer to other tables of the statement.
"""

from __future__ import annotations

import re

from ._sql_csv import open_in_work_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

_READABLE = "data/"
_MOST_BYTES = 16 * 2**20
_MOST_DEPTH = 5
_NO_END = "4294967295"
"""Where the shell's series ends without a second argument."""
_SKIPPED = r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|\Z)"
_CALL = re.compile(rf"{_SKIPPED}|(?P<call>\bgenerate_series\s*\()", re.DOTALL | re.IGNORECASE)
_SIGN = re.compile(rf"{_SKIPPED}|[(),]", re.DOTALL)
_ALIAS = re.compile(
    r"\s*(?!(?:WHERE|ORDER|GROUP|HAVING|LIMIT|WINDOW|JOIN|LEFT|RIGHT|FULL|INNER|CROSS|NATURAL|ON|USING|UNION|"
    r"EXCEPT|INTERSECT|RETURNING)\b)(?:AS\b|[A-Za-z_\"`])",
    re.IGNORECASE,
)


class ShellFunctions:
    """The functions of one connection. `refused` is the reason for the last refused call."""

    def __init__(self) -> None:
        self.refused = ""

    def install(self, connection: sqlite3.Connection) -> None:
        """Add the functions to a connection. Raises: sqlite3.Error."""
        connection.create_function("regexp", 2, self._regexp, deterministic=True)
        connection.create_function("readfile", 1, self._readfile)

    def _regexp(self, pattern: object, text: object) -> int | None:
        if pattern is None or text is None:
            return None
        try:
            return int(re.search(str(pattern), str(text)) is not None)
        except re.error as problem:
            self.refused = f"REGEXP: {problem} in the pattern {str(pattern)[:100]!r}"
            raise

    def _readfile(self, path: object) -> bytes | None:
        name = str(path)
        if not name.startswith(_READABLE) or ".." in name.split("/"):
            self.refused = f"not authorized: readfile reads below {_READABLE} only, not {name[:100]!r}"
            raise ValueError(self.refused)
        try:
            descriptor = open_in_work_dir(name)
        except OSError:
            return None  # like the shell's
        with open(descriptor, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            self.refused = f"readfile: {name[:100]!r} has more than {_MOST_BYTES >> 20} MiB"
            raise ValueError(self.refused)
        return content


def expand_series(statement: str, depth: int = 0) -> str:
    """Replace calls of ``generate_series`` with recursive queries, up to a maximum nesting depth."""
    parts, done = [], 0
    for found in _CALL.finditer(statement):
        if found["call"] is None or found.start() < done:
            continue
        *arguments, end = _split_arguments(statement, found.end())
        if not end or depth == _MOST_DEPTH:
            break  # it isn't closed, so nothing inside it is closed either
        if not 1 <= len(arguments) <= 3:
            continue
        arguments = [expand_series(argument, depth + 1) for argument in arguments]
        alias = "" if _ALIAS.match(statement, int(end)) else " AS generate_series"
        parts += [statement[done : found.start()], _build_series_query(arguments), alias]
        done = int(end)
    return "".join([*parts, statement[done:]])


def _split_arguments(statement: str, begin: int) -> Iterator[str]:
    """Yield a call's arguments, then the index after the call, or an empty string if it isn't closed."""
    depth, start = 0, begin
    for found in _SIGN.finditer(statement, begin):
        if found[0] == "(":
            depth += 1
        elif found[0] in {")", ","} and depth == 0:
            yield statement[start : found.start()]
            start = found.end()
            if found[0] == ")":
                yield str(found.end())
                return
        elif found[0] == ")":
            depth -= 1
    yield ""


def _build_series_query(arguments: list[str]) -> str:
    start, stop, step = [*arguments, _NO_END, "1"][:3] if len(arguments) == 1 else [*arguments, "1"][:3]
    return (  # the text comes from the step itself, which may run any statement
        '(WITH RECURSIVE "series bounds" (a, b, s) AS '  # noqa: S608
        f"(SELECT {start}, {stop}, CASE ({step}) WHEN 0 THEN 1 ELSE ({step}) END), "
        '"series values" (value) AS (SELECT a FROM "series bounds" WHERE iif(s > 0, a <= b, a >= b) '
        'UNION ALL SELECT value + s FROM "series values", "series bounds" '
        "WHERE iif(s > 0, value + s <= b, value + s >= b)) "
        'SELECT value FROM "series values")'
    )  # fmt: skip
