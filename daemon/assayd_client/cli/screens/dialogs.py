"""Implements small dialogs for entering one line of text in front of a screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label


class Line(ModalScreen[str | None]):
    """A dialog for one line of text. The dialog's result is None if the user cancels.

    Args:
        question: the question.
        does: one word for the action of the `enter` key.
        value: the initial text of the field.
        most: the maximum number of characters.
        check: the function that returns the reason why a line is invalid, or nothing; the dialog stays open
            while the line is invalid.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back")]

    def __init__(
        self,
        question: str,
        *,
        does: str,
        value: str = "",
        most: int = 4096,
        check: Callable[[str], str] = lambda _: "",
    ) -> None:
        super().__init__()
        self._question, self._does, self._value = question, does, value
        self._most, self._check = most, check

    def compose(self) -> ComposeResult:
        """Create the question, the field, a line for errors, and a footer with the keys."""
        with Vertical(classes="dialog"):
            yield Label(self._question, markup=False)
            yield Input(self._value, max_length=self._most)
            yield Label("", id="wrong", markup=False)
            yield Label(f"enter {self._does}   esc Back", markup=False)

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        """Accept the line if it is valid and not empty."""
        text = submitted.value.strip()
        wrong = self._check(text)
        self.query_one("#wrong", Label).update(wrong)
        if text and not wrong:
            self.dismiss(text)
