"""Implements the request screen, with fields for the text of the request and for its context."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from assayd_client.cli.screens.fields import (
    CASES,
    CONTEXT,
    DATABASE,
    FIELDS,
    INTENT,
    OPTION,
    PROVIDER,
    complete_cases,
    expand_patterns,
    find_field_of_error,
    format_case_shape,
    list_databases,
    list_entered_lines,
    list_other_parts,
    name_fields,
)
from assayd_client.cli.screens.session import GenerationInput, GenerationOptions
from assayd_client.cli.terminal import plain, shorten

LABEL_CHARS = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class EnteredRequest:
    """The text of the request and the values of the completed fields."""

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
                yield _set_title(_database_select(self._given.database), "Database")
            further = list_other_parts(takes)
            if further or filled[OPTION]:
                area = TextArea("\n".join(filled[OPTION]), id=OPTION, classes="few")
                yield _set_title(area, f"More fields, one KEY=VALUE per line: {', '.join(further)}")
            with Horizontal(id="last"):
                yield _set_title(_provider_select(self._asked.provider, self._offered.writers), "Provider")
                yield Button("Generate", id="go", variant="primary")
        yield Footer()

    def on_mount(self) -> None:
        """Show the previous error, insert the typed text, and move each cursor to the end of its text."""
        for area in self.query(TextArea):
            area.move_cursor(area.document.end)
        if self._trouble is not None:
            self.tell(self._trouble)
        else:
            self._before = self._entered_texts()
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
        """Close the screen without a request; if the user has filled it, only at the second key."""
        now = self._entered_texts()
        if now in (self._before, self._leaving):
            self.dismiss(None)
            return
        self._leaving = now
        self.query_one("#trouble", Static).update("Press esc again to leave and lose what you typed.")

    def _entered_texts(self) -> list[object]:
        texts: list[object] = [area.text for area in self.query(TextArea)]
        return texts + [select.value for select in self.query(Select)]

    def tell(self, trouble: AssaydError) -> None:
        """Show an error at the top, and focus the field that causes it."""
        self.query_one("#trouble", Static).update(plain(name_fields(trouble.message)))
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
        inputs = self._entered_lines("input")
        given = replace(
            self._given,
            sample_paths=self._entered_lines("sample_path"),
            files=[Path(each) for each in self._entered_lines("file")],
            database=self._selected_path(),
            examples=self._entered_lines("example"),
            inputs=Path(inputs[0]) if inputs else None,
            options=self._entered_lines(OPTION),
        )
        if not intent:
            raise RequestError("intent.empty", "describe what the code should do", field=INTENT)
        context = read_context(
            self._asked.kind, replace(given, sample_paths=expand_patterns(given.sample_paths))
        )
        if given.examples:
            cases = cast("list[Document]", context[CASES])
            context[CASES] = complete_cases(cases, self._offered.case_fields)
        provider = self._selected_value(PROVIDER)
        if provider is None and len(self._offered.writers) > 1:
            raise RequestError("generation.provider", "choose a provider", field=PROVIDER)
        return EnteredRequest(
            asked=replace(self._asked, intent=intent, context=context, provider=provider), given=given
        )

    def _selected_path(self) -> Path | None:
        chosen = self._selected_value(DATABASE)
        return None if chosen is None else Path(chosen)

    def _selected_value(self, field: str) -> str | None:
        values = (each.value for each in self.query(f"#{field}").results(Select))
        return next((value for value in values if isinstance(value, str)), None)

    def _entered_lines(self, field: str) -> list[str]:
        areas = self.query(f"#{field}").results(TextArea)  # none if the kind doesn't have this field
        lines = [each.strip() for area in areas for each in area.text.splitlines()]
        return [each for each in lines if each]


def _set_title(field: Widget, label: str) -> Widget:
    """Show the label in the border of a field."""
    field.border_title = escape(shorten(label, LABEL_CHARS))
    return field


def _database_select(chosen: Path | None) -> Select[str]:
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


def _provider_select(chosen: str | None, writers: tuple[str, ...]) -> Select[str]:
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
