"""The screen that asks what is wanted: words, and what comes with them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Button, Footer, Input, Label, Select, Static, TextArea

from assayd.cli.generate import Given, read_context
from assayd.cli.screens.session import Asked
from assayd.cli.terminal import plain, shorten
from assayd.errors import AssaydError, RequestError

MOST_PATHS = 50
DATABASES = ("*.db", "*.sqlite", "*.sqlite3", "*.sql")
FIELDS = {
    "sample_path": ("sample_paths", "Sample paths: one a line, or a pattern like data/**/*.csv"),
    "example": ("cases", "Examples that it has to pass: a JSON object a line"),
    "file": ("files", "Files and folders that are there: one a line"),
    "input": ("inputs", "Inputs: a JSON file"),
}
"""What may come with the words, by its option of the command line: its name in `context`, the question."""
DATABASE = "database"


class Asking(Screen[Asked | None]):
    """Ask for words and context; None when the person leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+g", "go", "Generate"),
        Binding("escape", "leave", "Leave"),
    ]

    def __init__(self, asked: Asked, given: Given, *, takes: frozenset[str], trouble: str = "") -> None:
        super().__init__()
        self._asked, self._given, self._trouble = asked, given, trouble
        self._takes = takes

    def compose(self) -> ComposeResult:
        """Make the fields, as far as they are known filled in."""
        with VerticalScroll():
            yield Label(f"What should this {plain(self._asked.kind)} do?", markup=False)
            yield TextArea(self._asked.intent, id="intent", classes="words")
            filled = _prefilled(self._given)
            for name, (field, label) in FIELDS.items():
                if field in self._takes or filled[name]:
                    yield Label(label)
                    yield TextArea("\n".join(filled[name]), id=name, classes="few")
            if DATABASE in self._takes or self._given.database:
                yield Label("Database")
                yield Select(
                    databases(Path()),
                    id=DATABASE,
                    prompt="none",
                    value=str(self._given.database) if self._given.database else Select.NULL,
                )
            others = sorted(self._takes - {DATABASE} - {field for field, _ in FIELDS.values()})
            if others or filled["option"]:
                yield Label(shorten(f"More, KEY=VALUE a line: {', '.join(others)}", 76))
                yield TextArea("\n".join(filled["option"]), id="option", classes="few")
            yield Label("Provider: empty takes the only one that is configured")
            yield Input(self._asked.provider or "", id="provider")
            yield Button("Generate", id="go", variant="primary")
        yield Static(plain(self._trouble), id="trouble", markup=False)
        yield Footer()

    def on_button_pressed(self) -> None:
        """Go on, as the key does."""
        self.action_go()

    def action_go(self) -> None:
        """Give what was asked for; what cannot be read is said and stays."""
        try:
            self.dismiss(self._read())
        except AssaydError as problem:
            self.query_one("#trouble", Static).update(plain(problem.message))

    def action_leave(self) -> None:
        """Leave without asking for anything."""
        self.dismiss(None)

    def _read(self) -> Asked:
        intent = self.query_one("#intent", TextArea).text.strip()
        if not intent:
            raise RequestError("intent.empty", "say in words what it should do")
        chosen = next((each.value for each in self.query(Select)), None)
        inputs = self._lines("input")
        given = Given(
            sample_paths=expanded(self._lines("sample_path")),
            files=[Path(each) for each in self._lines("file")],
            database=Path(chosen) if isinstance(chosen, str) else None,
            examples=self._lines("example"),
            inputs=Path(inputs[0]) if inputs else None,
            options=self._lines("option"),
            sample_rows=self._given.sample_rows,
        )
        return Asked(
            kind=self._asked.kind,
            intent=intent,
            context=read_context(self._asked.kind, given),
            policy=self._asked.policy,
            provider=self.query_one("#provider", Input).value.strip() or None,
            max_attempts=self._asked.max_attempts,
            labels=self._asked.labels,
        )

    def _lines(self, field: str) -> list[str]:
        areas = self.query(f"#{field}").results(TextArea)  # none, where the kind takes no such thing
        lines = [each.strip() for area in areas for each in area.text.splitlines()]
        return [each for each in lines if each]


def expanded(said: Sequence[str]) -> list[str]:
    """Return paths, patterns replaced by the files that they match, at most `MOST_PATHS`.

    Raises: RequestError ``paths.none``, for a pattern that matches nothing.
    """
    found: list[str] = []
    for each in said:
        is_pattern = any(mark in each for mark in "*?[")
        matched = sorted(str(path) for path in _matching(each) if path.is_file())
        if is_pattern and not matched:
            raise RequestError("paths.none", f"no file matches {each!r}")
        found += matched if is_pattern else [each]
    return found[:MOST_PATHS]


def _matching(pattern: str) -> Iterator[Path]:
    path = Path(pattern).expanduser()
    return Path(path.anchor).glob(str(path.relative_to(path.anchor)))


def databases(folder: Path) -> list[tuple[str, str]]:
    """Return the databases and schemas in a folder with what they hold, each with its path."""
    found = sorted({path for pattern in DATABASES for path in folder.glob(pattern)})
    return [(shorten(f"{path.name}  {', '.join(_tables(path))}", 70), str(path)) for path in found]


def _tables(path: Path) -> Iterator[str]:
    if path.suffix == ".sql":
        yield "a schema"
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            yield from (plain(str(name)) for (name,) in connection.execute(query))
    except sqlite3.Error:
        yield "not readable as SQLite"


def _prefilled(given: Given) -> dict[str, list[str]]:
    return {
        "sample_path": list(given.sample_paths),
        "example": list(given.examples),
        "file": [str(path) for path in given.files],
        "input": [str(given.inputs)] if given.inputs else [],
        "option": list(given.options),
    }
