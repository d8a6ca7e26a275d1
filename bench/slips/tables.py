"""Reads the tables of slips and of worthless passes: text, line of the slip, and words that name its remedy.

An entry with an odd number was seen while hints and rules were built; one with an even number was not. Each
table has a second set, which was written later and without a look at the rules. What its even numbers missed
has been read since, and that of the first set's even numbers too. No hint was built for the third set.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parent / "tables"
SLIPS = ("bash", "sql", "module", "fifth")
WORTHLESS = ("worthless", "worthless_held", "worthless_second")
HALVES = ("seen", "unseen", "second-seen", "second-unseen", "third")
SETS = ("", "_second", "_third")
"""What the names of a table's files end with, by the number of the set."""
Payload = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One submission with a slip; `put` makes the payload from another text."""

    table: str
    series: int
    number: int
    name: str
    kind: str
    text: str
    file: str | None
    lines: frozenset[int]
    remedies: tuple[str, ...]
    put: Callable[[str], Payload]

    @property
    def half(self) -> str:
        """Return which of HALVES the entry belongs to."""
        return HALVES[2 * self.series + (self.series < len(SETS) - 1 and self.number % 2 == 0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Worthless:
    """One submission that passes; `rule` says which finding is due, None for a correct one."""

    number: int
    name: str
    kind: str
    rule: str | None
    payload: Payload

    @property
    def seen(self) -> bool:
        """Return whether the entry was seen while rules were built."""
        return self.number % 2 == 1


def slips(table: str) -> Iterator[Entry]:
    """Return the slips of a table's sets, each numbered from 1."""
    read = _table(table)
    make = {"bash": _bash, "sql": _sql, "module": _module, "fifth": _fifth}[table]
    for series, ending in enumerate(SETS):
        for number, told in enumerate(_table(table + ending)["slip"], 1):
            yield replace(make(read, number, told), series=series)


def worthless(table: str) -> Iterator[Worthless]:
    """Return the worthless passes of a table and their correct neighbours, kind by kind."""
    read = _table(table)
    for kind in ("extractor", "code", "pipeline", "module"):
        for number, told in enumerate(read[kind], 1):
            yield Worthless(
                number=number,
                name=told["name"],
                kind=kind,
                rule=told.get("rule"),
                payload=_worthless_payload(read, kind, told),
            )


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))


def _bash(read: Payload, number: int, told: Payload) -> Entry:
    def put(text: str) -> Payload:
        return {"files": read["files"], "steps": [{"name": "one", "type": "bash", "content": text}]}

    return _whole("bash", "pipeline", number, told, put, file="one")


def _sql(read: Payload, number: int, told: Payload) -> Entry:
    def put(text: str) -> Payload:
        step = {"name": "one", "type": "sql", "content": text}
        return {"database": {"schema_sql": read["schema"]}, "steps": [step]}

    return _whole("sql", "pipeline", number, told, put, file="one")


def _fifth(read: Payload, number: int, told: Payload) -> Entry:
    return _whole("fifth", "fifth", number, told, lambda text: {"code": text, "execute": True}, file=None)


def _whole(
    table: str, kind: str, number: int, told: Payload, put: Callable[[str], Payload], *, file: str | None
) -> Entry:
    return Entry(
        table=table,
        series=0,
        number=number,
        name=told["name"],
        kind=kind,
        text=told["code"],
        file=file,
        lines=frozenset(told["lines"]),
        remedies=tuple(told["remedy"]),
        put=put,
    )


def _module(read: Payload, number: int, told: Payload) -> Entry:
    """Put a slip into one file: its lines are those of the text that was put there."""
    files = {name: text.lstrip("\n") for name, text in read["files"].items()}
    name, right = told["file"], files[told["file"]]
    if right.count(told["old"]) < 1:
        raise ValueError(f"module/{told['name']}: {name} does not hold the text that is replaced")
    first = right[: right.index(told["old"])].count("\n") + 1
    last = first + told["new"].count("\n") + told.get("lines_after", 0)

    def put(text: str) -> Payload:
        return {"manifest": read["manifest"], "files": {**files, name: text}}

    return Entry(
        table="module",
        series=0,
        number=number,
        name=told["name"],
        kind="module",
        text=right.replace(told["old"], told["new"], 1),
        file=name,
        lines=frozenset(told.get("lines", range(first, last + 1))),
        remedies=tuple(told["remedy"]),
        put=put,
    )


def _worthless_payload(read: Payload, kind: str, told: Payload) -> Payload:
    match kind:
        case "extractor":
            paths: Sequence[str] = read[told.get("paths", "sample_paths")]
            return {"code": told["code"], "sample_paths": paths}
        case "code":
            return {"code": told["code"], "inputs": told["inputs"]}
        case "module":
            adapter = read["adapters"][told["adapter"]] if "adapter" in told else read["adapter"]
            files = {"adapter.py": adapter["code"], "test_adapter.py": told["tests"]}
            return {"manifest": adapter["manifest"], "files": files}
    database = {"schema_sql": read["schema"]["sql"]}
    return {"database": database, "files": told.get("files", {}), "steps": told["steps"]}
