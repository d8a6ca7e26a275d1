"""Small questions in front of a screen: one line of text, or none."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label


class Line(ModalScreen[str | None]):
    """Ask for one line; None when the person thinks better of it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back")]

    def __init__(self, question: str, *, value: str = "", most: int = 4096) -> None:
        super().__init__()
        self._question, self._value, self._most = question, value, most

    def compose(self) -> ComposeResult:
        """Make the question and its field."""
        with Vertical(classes="dialog"):
            yield Label(self._question)
            yield Input(self._value, max_length=self._most)

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        """Take what was written, unless it is nothing."""
        text = submitted.value.strip()
        if text:
            self.dismiss(text)
