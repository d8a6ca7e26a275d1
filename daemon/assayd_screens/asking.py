"""The request screen: its fields with their questions and contents, and its context."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, cast

from rich.markup import escape
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Button, Footer, Select, Static, TextArea

from assayd.errors import AssaydError, RequestError
from assayd_client import Document
from assayd_client.cli.generate import GenerateOptions, read_context
from assayd_client.cli.terminal import plain, shorten
from assayd_screens.session import GenerationInput, GenerationOptions

MAX_PATHS = 50
NAME_CHARS = 128
"""Maximum characters of an example's name."""
DATABASE_PATTERNS = ("*.db", "*.sqlite", "*.sqlite3", "*.sql")
INTENT = "intent"
CONTEXT = "context"
"""The id for errors that concern the context as a whole."""
CASES = "cases"
OPTION = "option"
DATABASE = "database"
PROVIDER = "provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextField:
    """A field for one part of the context.

    Attributes:
        name: the field's command-line option, and its id on the screen.
        key: the field's name in `context`.
        title: the field's name in errors.
        label: the question that the field asks.
    """

    name: str
    key: str
    title: str
    label: str


FIELDS = (
    ContextField(
        name="sample_path",
        key="sample_paths",
        title="Sample paths",
        label="Sample paths, one per line, or patterns: data/**/*.csv",
    ),
    ContextField(
        name="example",
        key=CASES,
        title="Examples",
        label="Examples that it must pass: one JSON object per line",
    ),
    ContextField(
        name="file",
        key="files",
        title="Files and folders",
        label="Files and folders that the code reads, one per line",
    ),
    ContextField(name="input", key="inputs", title="Inputs", label="Inputs: path of a JSON file"),
)
UNPREFIXED_KEYS = ("sample_paths", CASES)
"""Keys of `context` that also occur without a prefix in errors."""


def replace_names_by_titles(message: str) -> str:
    """Return an error in which field titles replace the names of options and context keys."""
    message = message.removeprefix("context: ")
    for field in FIELDS:
        place = rf"\bcontext\.{field.key}(?:\.(\d+)(\.)?)?"
        message = re.sub(place, partial(_format_titled_location, field.title), message)
        key = rf"|\b{field.key}\b" if field.key in UNPREFIXED_KEYS else ""
        message = re.sub(rf"--{field.name.replace('_', '-')}\b{key}", field.title, message)
    return message


def _format_titled_location(title: str, found: re.Match[str]) -> str:
    entry = f", entry {int(found[1]) + 1}" if found[1] else ""
    return f"{title}{entry}{', ' if found[2] else ''}"


def format_case_shape(fields: Mapping[str, str]) -> str:
    """Return the shape of an example, such as ``{"path": …, "expected": {…}}``, or an empty string."""
    parts = (f'"{name}": {"{…}" if form == "object" else "…"}' for name, form in fields.items())
    return f"{{{', '.join(parts)}}}" if fields else ""


def complete_cases(cases: Sequence[Document], fields: Mapping[str, str]) -> list[Document]:
    """Return examples, each with its path as the default name.

    Raises: RequestError ``invalid``, with all missing fields.
    """
    complete = [
        {"name": str(case["path"])[:NAME_CHARS], **case} if "name" in fields and "path" in case else case
        for case in cases
    ]
    missing = [[name for name in fields if name not in case] for case in complete]
    faults = [
        f"example {number}: {', '.join(names)} {'is' if len(names) == 1 else 'are'} missing"
        for number, names in enumerate(missing, 1)
        if names
    ]
    if faults:
        raise RequestError("invalid", "; ".join(faults), field="context.cases")
    return complete


def list_unsupported_parts(takes: frozenset[str]) -> list[str]:
    """Return the parts of a kind's context that have no separate field."""
    return sorted(takes - {DATABASE} - {field.key for field in FIELDS})


def find_field_of_error(name: str | None) -> str | None:
    """Return the id of the field to which an error refers, or None if it refers to no field.

    For example, the field of ``context.sample_paths.0`` is ``sample_path``.
    """
    first, _, rest = (name or "").partition(".")
    if first in {INTENT, PROVIDER}:
        return first
    if first != "context":
        return None
    if not rest:  # for the whole field, because something is missing in it
        return CONTEXT
    key = rest.partition(".")[0]
    own = next((field.name for field in FIELDS if field.key == key), None)
    return own or (DATABASE if key == DATABASE else OPTION if key else None)


def list_entered_lines(given: GenerateOptions) -> dict[str, list[str]]:
    """Return the content of each field as a list of lines."""
    return {
        "sample_path": list(given.sample_paths),
        "example": list(given.examples),
        "file": [str(path) for path in given.files],
        "input": [str(given.inputs)] if given.inputs else [],
        OPTION: list(given.options),
    }


def expand_patterns(said: Sequence[str]) -> list[str]:
    """Return at most `MAX_PATHS` paths, after replacing each pattern by the matching files.

    Raises: RequestError ``paths.none``, if a pattern matches nothing.
    """
    found: list[str] = []
    for each in said:
        is_pattern = any(mark in each for mark in "*?[")
        matched = sorted(str(path) for path in _iter_matches(each) if path.is_file())
        if is_pattern and not matched:
            raise RequestError("paths.none", f"no file matches {each!r}", field="context.sample_paths")
        found += matched if is_pattern else [each]
    return found[:MAX_PATHS]


def _iter_matches(pattern: str) -> Iterator[Path]:
    path = Path(pattern).expanduser()
    return Path(path.anchor).glob(str(path.relative_to(path.anchor)))


def list_databases(folder: Path) -> list[tuple[str, str]]:
    """Return the databases and schemas in a folder, with the tables and the path of each."""
    found = sorted({path for pattern in DATABASE_PATTERNS for path in folder.glob(pattern)})
    return [(shorten(f"{path.name}  {', '.join(_iter_table_names(path))}", 70), str(path)) for path in found]


def _iter_table_names(path: Path) -> Iterator[str]:
    if path.suffix == ".sql":
        yield "a schema"
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            yield from (plain(str(name)) for (name,) in connection.execute(query))
    except sqlite3.Error:
        yield "not readable as SQLite"


MAX_LABEL_TEXT_CHARS = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class EnteredRequest:
    """The text of a request, and the values of its context fields."""

    asked: GenerationInput
    given: GenerateOptions


class Asking(Screen[EnteredRequest | None]):
    """A screen for entering a request and its context.

    The screen's result is None if the user leaves.

    Args:
        asked: the known part of the request.
        given: the initial contents of the fields.
        offered: the context that the kind accepts, and the available providers.
        trouble: the reason why an earlier request was rejected.
        typed: the text that was typed before the screen had a field.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+g", "go", "Generate"),
        Binding("escape", "leave", "Leave"),
        # With priority, because keys that follow quickly would otherwise go to the previous field.
        Binding("tab", "app.focus_next", show=False, priority=True),
        Binding("shift+tab", "app.focus_previous", show=False, priority=True),
    ]
    AUTO_FOCUS = f"#{INTENT}"

    def __init__(
        self,
        asked: GenerationInput,
        given: GenerateOptions,
        *,
        offered: GenerationOptions,
        trouble: AssaydError | None = None,
        typed: str = "",
    ) -> None:
        super().__init__()
        self._asked, self._given, self._trouble = asked, given, trouble
        self._offered, self._typed = offered, typed
        self._before: list[object] = []
        self._leaving: list[object] | None = None

    def compose(self) -> ComposeResult:
        """Create the fields and fill in the known values."""
        takes, filled = self._offered.context, list_entered_lines(self._given)
        yield Static(id="trouble", markup=False)
        with VerticalScroll(can_focus=False):
            question = f"What should this {self._asked.kind} do?"
            yield _set_title(TextArea(self._asked.intent, id=INTENT, classes="words"), question)
            for field in FIELDS:
                if field.key in takes or filled[field.name]:
                    text = "\n".join(filled[field.name])
                    shape = format_case_shape(self._offered.case_fields) if field.key == CASES else ""
                    area = TextArea(text, id=field.name, classes="few", placeholder=shape)
                    yield _set_title(area, field.label)
            if DATABASE in takes or self._given.database:
                yield _set_title(_build_database_select(self._given.database), "Database")
            further = list_unsupported_parts(takes)
            if further or filled[OPTION]:
                area = TextArea("\n".join(filled[OPTION]), id=OPTION, classes="few")
                yield _set_title(area, f"More fields, one KEY=VALUE per line: {', '.join(further)}")
            with Horizontal(id="last"):
                yield _set_title(
                    _build_provider_select(self._asked.provider, self._offered.writers), "Provider"
                )
                yield Button("Generate", id="go", variant="primary")
        yield Footer()

    def on_mount(self) -> None:
        """Show the previous error, insert the typed text, and move each cursor to the end of its text."""
        for area in self.query(TextArea):
            area.move_cursor(area.document.end)
        if self._trouble is not None:
            self.tell(self._trouble)
        else:
            self._before = self._get_entered_texts()
        self.type("")

    def type(self, text: str) -> None:
        """Insert text that was typed while no field had the focus."""
        self._typed += text
        for area in self.query(f"#{INTENT}").results(TextArea):
            area.move_cursor(area.document.end)
            area.insert(self._typed)
            self._typed = ""

    def on_button_pressed(self) -> None:
        """Submit the request, like the keyboard shortcut."""
        self.action_go()

    def action_go(self) -> None:
        """Return the request or, if a field is invalid, show the error and keep the screen open."""
        try:
            self.dismiss(self._read_request())
        except AssaydError as problem:
            self.tell(problem)

    def action_leave(self) -> None:
        """Close the screen without a request. If the user has entered text, require a second key press."""
        now = self._get_entered_texts()
        if now in (self._before, self._leaving):
            self.dismiss(None)
            return
        self._leaving = now
        self.query_one("#trouble", Static).update("Press esc again to leave and lose what you typed.")

    def _get_entered_texts(self) -> list[object]:
        texts: list[object] = [area.text for area in self.query(TextArea)]
        return texts + [select.value for select in self.query(Select)]

    def tell(self, trouble: AssaydError) -> None:
        """Show an error at the top, and focus the field that causes it."""
        self.query_one("#trouble", Static).update(plain(replace_names_by_titles(trouble.message)))
        shown = [*self.query("TextArea, Select").results(Widget)]
        wrong = find_field_of_error(trouble.field)
        if wrong == CONTEXT:
            wrong = next((field.id for field in shown if field.id != INTENT), None)
        for field in shown:
            field.set_class(field.id == wrong, "wrong")
            field.border_subtitle = "correct this" if field.id == wrong else ""
            if field.id == wrong:
                field.focus()

    def on_key(self, event: events.Key) -> None:
        """Insert text that was typed before the first focus into the field for the request."""
        early = self.focused is None or self.focused.id == INTENT
        if early and event.is_printable and event.character:
            event.stop()
            self.type(event.character)

    def _read_request(self) -> EnteredRequest:
        intent = self.query_one(f"#{INTENT}", TextArea).text.strip()
        inputs = self._get_entered_lines("input")
        given = replace(
            self._given,
            sample_paths=self._get_entered_lines("sample_path"),
            files=[Path(each) for each in self._get_entered_lines("file")],
            database=self._get_selected_path(),
            examples=self._get_entered_lines("example"),
            inputs=Path(inputs[0]) if inputs else None,
            options=self._get_entered_lines(OPTION),
        )
        if not intent:
            raise RequestError("intent.empty", "describe what the code should do", field=INTENT)
        context = read_context(
            self._asked.kind, replace(given, sample_paths=expand_patterns(given.sample_paths))
        )
        if given.examples:
            cases = cast("list[Document]", context[CASES])
            context[CASES] = complete_cases(cases, self._offered.case_fields)
        provider = self._get_selected_value(PROVIDER)
        if provider is None and len(self._offered.writers) > 1:
            raise RequestError("generation.provider", "choose a provider", field=PROVIDER)
        return EnteredRequest(
            asked=replace(self._asked, intent=intent, context=context, provider=provider), given=given
        )

    def _get_selected_path(self) -> Path | None:
        chosen = self._get_selected_value(DATABASE)
        return None if chosen is None else Path(chosen)

    def _get_selected_value(self, field: str) -> str | None:
        values = (each.value for each in self.query(f"#{field}").results(Select))
        return next((value for value in values if isinstance(value, str)), None)

    def _get_entered_lines(self, field: str) -> list[str]:
        areas = self.query(f"#{field}").results(TextArea)  # none if the kind doesn't have this field
        lines = [each.strip() for area in areas for each in area.text.splitlines()]
        return [each for each in lines if each]


def _set_title(field: Widget, label: str) -> Widget:
    """Show a label in the border of a field, and return the field."""
    field.border_title = escape(shorten(label, MAX_LABEL_TEXT_CHARS))
    return field


def _build_database_select(chosen: Path | None) -> Select[str]:
    offered = list_databases(Path())
    if chosen is not None and str(chosen) not in {path for _, path in offered}:
        offered.append((plain(str(chosen)), str(chosen)))
    return Select(
        offered,
        id=DATABASE,
        prompt="none",
        compact=True,
        value=str(chosen) if chosen is not None else Select.NULL,
    )


def _build_provider_select(chosen: str | None, writers: tuple[str, ...]) -> Select[str]:
    """Return the field for selecting a provider. An unsuitable provider is rejected by the daemon."""
    names = [*writers, *([chosen] if chosen is not None and chosen not in writers else [])]
    only = names[0] if len(names) == 1 else Select.NULL
    return Select(
        [(plain(name), name) for name in names],
        id=PROVIDER,
        compact=True,
        prompt="choose" if names else "no provider is configured: see the setting repair.providers",
        value=chosen if chosen is not None else only,
    )
