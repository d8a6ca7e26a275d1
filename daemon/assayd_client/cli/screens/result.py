"""Implements the result screen, which shows code, previews, warnings, failures and next actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Input, Label, Static

from assayd.errors import AssaydError, RequestError
from assayd_client.cli.screens.naming import SaveTarget, find_name_problem
from assayd_client.cli.screens.session import (
    ChainOutcome,
    WizardSession,
    list_editable_texts,
    list_submitted_texts,
)
from assayd_client.cli.screens.shown import render_outcome
from assayd_client.cli.screens.watching import Begin
from assayd_client.cli.terminal import plain
from assayd_client.cli.texts import edited


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRules:
    """Rules that a user has accepted, with their name, their YAML text, and the output file."""

    name: str
    text: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The choice of the user after a result.

    Attributes:
        begin: the chain to watch next; None if the user is done.
        approved: the name and version of the approved entry.
        rules: the rules that were accepted instead of code.
        back: whether the user wants the previous validated result.
    """

    begin: Begin | None = None
    approved: str | None = None
    rules: AcceptedRules | None = None
    back: bool = False


class Result(Screen[Step]):
    """A screen that shows an outcome. The screen's result is the user's next step."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "approve", "Approve"),
        Binding("e", "edit", "Edit"),
        Binding("r", "regenerate", "Regenerate"),
        Binding("h", "hint", "Hint"),
        Binding("y", "take_rules", "Use YAML"),
        Binding("b", "back", "Earlier pass"),
        Binding("escape", "leave", "Leave"),
    ]

    def __init__(
        self,
        session: WizardSession,
        outcome: ChainOutcome,
        *,
        wanted: SaveTarget,
        regenerate: Begin | None,
        trouble: str = "",
        has_earlier: bool = False,
    ) -> None:
        super().__init__()
        self._session, self._outcome = session, outcome
        self._wanted, self._regenerate, self._trouble = wanted, regenerate, trouble
        self._has_earlier = has_earlier

    def compose(self) -> ComposeResult:
        """Create the result, a line for errors, and a footer with the keys."""
        with VerticalScroll():
            yield Static(render_outcome(self._outcome), id="result")
        yield Static(plain(self._trouble), id="trouble", markup=False)
        yield Footer()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is possible for this outcome."""
        offered = {
            "approve": self._outcome.validated,
            "edit": bool(list_submitted_texts(self._outcome)),
            "regenerate": self._regenerate is not None,
            "hint": self._outcome.generation_id is not None or not self._outcome.validated,
            "take_rules": self._outcome.offer is not None,
            "back": self._has_earlier,
        }
        return offered.get(action, True)

    @work
    async def action_approve(self) -> None:
        """Ask for a name and approve the result under this name."""
        dialog = Line(
            "Approve it under which name?",
            does="Approve",
            value=self._wanted.name,
            most=64,
            check=find_name_problem,
        )
        name = await self.app.push_screen_wait(dialog)
        if name is not None:
            self._wanted = replace(self._wanted, name=name)
            self.approve(name)

    @work(thread=True)
    def approve(self, name: str) -> None:
        """Request the daemon's approval of the result under a name."""
        try:
            approved = self._session.approve(self._outcome, name)
        except AssaydError as problem:
            self.app.call_from_thread(self.tell, problem.message)
        else:
            self.app.call_from_thread(self.dismiss, Step(approved=approved))

    def action_edit(self) -> None:
        """Open the result in the user's editor and validate the edited result."""
        before = list_editable_texts(self._outcome)
        try:
            with self.app.suspend():
                after = edited(before)
        except SuspendNotSupported:
            self.tell("this terminal can't start an editor")
        except RequestError as problem:
            self.tell(problem.message)
        else:
            if after == before:
                self.tell("nothing was changed")
            else:
                self.dismiss(Step(begin=partial(self._session.submit, self._outcome, after)))

    def action_regenerate(self) -> None:
        """Start a new generation with the same request."""
        self.dismiss(Step(begin=self._regenerate))

    @work
    async def action_hint(self) -> None:
        """Continue the chain with a hint from the user."""
        hint = await self.app.push_screen_wait(Line("What should be improved?", does="Send"))
        if hint is not None:
            self.dismiss(Step(begin=partial(self._session.hint, self._outcome, hint)))

    @work
    async def action_take_rules(self) -> None:
        """Accept the offered rules instead of code, and save them under a name."""
        if self._outcome.offer is None:
            return
        question = "Use the rules under which name?"
        if self._wanted.out is None:
            question += " They are written to NAME.yaml in this folder."
        check = find_name_problem if self._wanted.out is not None else _find_file_problem
        dialog = Line(question, does="Accept", value=self._wanted.name, most=64, check=check)
        name = await self.app.push_screen_wait(dialog)
        if name is not None:
            self.accept(self._outcome.offer[0], name)

    @work(thread=True)
    def accept(self, repair_id: str, name: str) -> None:
        """Request that the daemon accept the offered rules."""
        try:
            text = self._session.accept(repair_id)
        except AssaydError as problem:
            self.app.call_from_thread(self.tell, problem.message)
        else:
            rules = AcceptedRules(name=name, text=text, path=self._wanted.out or get_default_rules_file(name))
            self.app.call_from_thread(self.dismiss, Step(rules=rules))

    def action_back(self) -> None:
        """Return to the previous validated result."""
        self.dismiss(Step(back=True))

    def action_leave(self) -> None:
        """Close the screen without changing the result."""
        self.dismiss(Step())

    def tell(self, trouble: str) -> None:
        """Show an error below the result."""
        self.query_one("#trouble", Static).update(plain(trouble))


def get_default_rules_file(name: str) -> Path:
    """Return the path of the default file for rules."""
    return Path(f"{name}.yaml")


def _find_file_problem(name: str) -> str:
    exists = f"{get_default_rules_file(name)} already exists; use another name, or --out."
    return find_name_problem(name) or (exists if get_default_rules_file(name).exists() else "")


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

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back")]

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
        self._leaving = value

    def compose(self) -> ComposeResult:
        """Create the question, the field, a line for errors, and a footer with the keys."""
        with Vertical(classes="dialog"):
            yield Label(self._question, markup=False)
            yield Input(self._value, max_length=self._most)
            yield Label("", id="wrong", markup=False)
            yield Label(f"enter {self._does}   esc Back", markup=False)

    def action_leave(self) -> None:
        """Close the dialog without a result; if the user has changed the line, only at the second key."""
        now = self.query_one(Input).value
        if now in (self._value, self._leaving):
            self.dismiss(None)
            return
        self._leaving = now
        self.query_one("#wrong", Label).update("Press esc again to lose what you typed.")

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        """Accept the line if it is valid and not empty."""
        text = submitted.value.strip()
        wrong = self._check(text)
        self.query_one("#wrong", Label).update(wrong)
        if text and not wrong:
            self.dismiss(text)
