"""The screens that watch a run and show its result: code, previews, warnings, failures, next actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text
from textual import work
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Input, Label, Static

from assayd.errors import AssaydError, RequestError
from assayd_client import Document, StreamEvent
from assayd_client.cli.generate import SaveTarget, find_name_problem
from assayd_client.cli.kinds import get_command_line
from assayd_client.cli.repair import iter_offer_lines
from assayd_client.cli.report import iter_report_lines
from assayd_client.cli.submitting import ProgressView
from assayd_client.cli.terminal import StyledLine, build_line, plain, shorten
from assayd_client.cli.texts import edited
from assayd_screens.session import (
    Chain,
    ChainOutcome,
    WizardSession,
    list_editable_texts,
    list_submitted_texts,
)

SHOWN_WIDTH = 76
"""Width of a source line in a report on the narrowest supported terminal."""
LEXERS = {".py": "python", ".sh": "bash", ".sql": "sql", ".json": "json"}


def to_rich_text(lines: Iterable[StyledLine]) -> Text:
    """Return the lines of a report as one Rich `Text`."""
    rows = [Text.assemble(*((part, style) for part, style in each.parts)) for each in lines]
    return Text("\n").join(rows)


def iter_highlighted_code(outcome: ChainOutcome) -> Iterator[RenderableType]:
    """Yield each submitted text with syntax highlighting and line numbers."""
    kind = outcome.submission["kind"] if outcome.submission is not None else ""
    for name, text in list_submitted_texts(outcome).items():
        suffix = name[name.rfind(".") :] if "." in name else ""
        lexer = LEXERS.get(suffix, "text") if name else get_command_line(kind).language
        yield Rule(Text(plain(name) or "Code"), align="left", style="dim")
        yield Syntax(
            plain(text.rstrip("\n")),
            lexer,
            theme="ansi_dark",
            line_numbers=True,
            word_wrap=True,
            background_color="default",
        )


def render_outcome(outcome: ChainOutcome) -> RenderableType:
    """Return an outcome as a Rich renderable, with report, code, change and offer."""
    parts: list[RenderableType] = []
    if outcome.told:
        parts.append(Text(plain(outcome.told)))
    if outcome.attempt is not None:
        parts.append(to_rich_text(iter_report_lines(outcome.attempt, width=SHOWN_WIDTH, verdict_last=False)))
    else:
        parts.append(Text("No answer contained a submission."))
    parts += iter_highlighted_code(outcome)
    if outcome.diff:
        parts += [Rule(Text("Changed by the last answer"), align="left", style="dim")]
        parts += [
            Syntax(plain(outcome.diff), "diff", theme="ansi_dark", word_wrap=True, background_color="default")
        ]
    if outcome.offer is not None:
        parts.append(Text("\n".join(plain(each) for each in iter_offer_lines(*outcome.offer))))
    return Group(*parts)


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
        """Return whether an action is available for this outcome, so that its key is shown."""
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
        """Approve the result at the daemon under a name, in a separate thread."""
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
        """Show an error message below the result."""
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
        """Close the dialog without a result. If the line has changed, require a second key press."""
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


TICK_S = 0.5
STREAMED_CHARS = 4000
STREAMED_LINES = 14
STREAMED_COLUMNS = 74
"""Maximum width of a line about an answer."""
Begin = Callable[[], Chain]
"""A function that starts the chain to watch."""


class ProgressScreen(Screen[ChainOutcome | AssaydError]):
    """A screen that follows a chain until it ends. The screen's result is the outcome or the error."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel")]

    def __init__(self, session: WizardSession, begin: Begin, *, kind: str) -> None:
        super().__init__()
        self._session, self._begin, self._kind = session, begin, kind
        self._chain: Chain | None = None
        self._cancelled = False
        self._answers: list[Document] = []
        self._attempt: str | None = None
        self._failures: dict[str, str] = {}
        self._progress = ProgressView(kind)
        self._heard = ""
        self._began = monotonic()

    def compose(self) -> ComposeResult:
        """Create the pane and a footer with the keys."""
        with VerticalScroll():
            yield Static(id="progress")
        yield Footer()

    def on_mount(self) -> None:
        """Start to follow the chain, and start the timer that updates the screen."""
        self.set_interval(TICK_S, self.show)
        self.show()
        self.follow()

    @work(thread=True)
    def follow(self) -> None:
        """Follow the chain in a separate thread until its outcome is known."""
        came: ChainOutcome | AssaydError
        try:
            self._chain = self._begin()
            if self._cancelled:
                self._session.cancel(self._chain)
            for event in self._session.follow(self._chain):
                self.app.call_from_thread(self.apply, event)
            came = self._session.outcome(self._chain)
        except AssaydError as problem:
            came = problem
        self.app.call_from_thread(self.dismiss, came)

    @work(thread=True)
    def look(self, attempt_id: str) -> None:
        """Follow an attempt of the chain in a separate thread.

        A failure in this thread affects only the display.
        """
        try:
            for event in self._session.events(attempt_id):
                self.app.call_from_thread(self.apply_to, attempt_id, event)
        except AssaydError:
            return

    @work(thread=True)
    def learn(self, attempt_id: str) -> None:
        """Fetch the reason why an attempt failed. If the request fails, only the verdict is shown."""
        try:
            failure = self._session.get_failure(attempt_id)
        except AssaydError:
            return
        self.app.call_from_thread(self.failed, attempt_id, failure)

    def failed(self, attempt_id: str, failure: str) -> None:
        """Record and display the reason why an attempt failed."""
        self._failures[attempt_id] = failure
        self.show()

    @work(thread=True)
    def action_cancel(self) -> None:
        """Request the cancellation of the chain, whose end arrives as an event."""
        self._cancelled = True
        if self._chain is not None:
            self._session.cancel(self._chain)

    def apply(self, event: StreamEvent) -> None:
        """Update the displayed state with an event of the chain."""
        if self._chain is not None and self._chain.form == "attempt":
            self._progress.apply(event)
        elif event.kind == "answer":
            self._heard = event.body["text"] if event.body["anew"] else self._heard + event.body["text"]
        elif event.kind != "stage":
            self._heard = ""
            self._answers = event.body.get("attempts", self._answers)
            for one in self._answers:
                if one["verdict"] == "failed" and one["attempt_id"] not in self._failures:
                    self._failures[one["attempt_id"]] = ""
                    self.learn(one["attempt_id"])
            ran = [one["attempt_id"] for one in self._answers if one["attempt_id"]]
            if ran and ran[-1] != self._attempt:
                self._attempt, self._progress = ran[-1], ProgressView(self._kind)
                self.look(ran[-1])
        self.show()

    def apply_to(self, attempt_id: str, event: StreamEvent) -> None:
        """Apply an event of an attempt to the displayed state, if the attempt is the newest one."""
        if attempt_id == self._attempt:
            self._progress.apply(event)
            self.show()

    def show(self) -> None:
        """Redraw the screen with the current state."""
        self.query_one("#progress", Static).update(to_rich_text(self._iter_progress_lines()))

    def _iter_progress_lines(self) -> Iterator[StyledLine]:
        took = f"{monotonic() - self._began:.0f} s"
        if self._chain is None or self._chain.form == "attempt":
            yield build_line(("Validating", "bold"), f"  {took}")
            yield from self._progress.lines()
            return
        under_way = bool(self._answers) and self._answers[-1]["verdict"] is None
        number = len(self._answers) - self._chain.before + (0 if under_way else 1)
        count = f"attempt {min(number, self._chain.most)} of {self._chain.most}"
        yield build_line(
            ("Generating", "bold"), f"  {count}{' since the hint' * bool(self._chain.hint)}  {took}"
        )
        if self._chain.hint:
            yield build_line((shorten(f"Hint: {self._chain.hint}", STREAMED_COLUMNS), "dim"))
        for one in self._answers[: -1 if under_way else None]:
            yield from self._iter_answer_lines(one)
        if under_way:
            yield from self._progress.lines()
        else:
            yield build_line(
                ("▸ ", "cyan"), "waiting for an answer" if not self._heard else "receiving an answer"
            )
            yield from (build_line(f"  {each}") for each in format_streamed_lines(self._heard))

    def _iter_answer_lines(self, one: Document) -> Iterator[StyledLine]:
        """Yield the lines that describe an answer's outcome and the provider's reason."""
        verdict = one["verdict"] or ("tried before" if one["duplicate"] else "no submission")
        unfit = one["original_error"] if one["attempt_id"] is None and not one["duplicate"] else ""
        failure = self._failures.get(one["attempt_id"] or "", unfit)
        yield build_line(
            shorten(f"{one['number']}. {verdict}{': ' if failure else ''}{failure}", STREAMED_COLUMNS)
        )
        yield build_line(("   reason: " + shorten(one["fix_reason"], STREAMED_COLUMNS - 11), "dim"))


def format_streamed_lines(heard: str) -> list[str]:
    """Return the last lines of a streamed answer in their displayed form."""
    shown = plain(heard[-STREAMED_CHARS:]).replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")
    lines = shown.split("\n")[-STREAMED_LINES:]
    return [each if len(each) <= STREAMED_COLUMNS else each[: STREAMED_COLUMNS - 1] + "…" for each in lines]
