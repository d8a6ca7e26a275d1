"""Implements the progress screen, which shows the current answer, its stages, and the run's progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from assayd.errors import AssaydError
from assayd_client import Document, StreamEvent
from assayd_client.cli.screens.session import Chain, ChainOutcome, WizardSession
from assayd_client.cli.screens.shown import to_rich_text
from assayd_client.cli.submitting import ProgressView
from assayd_client.cli.terminal import StyledLine, build_line, plain, shorten

TICK_S = 0.5
STREAMED_CHARS = 4000
STREAMED_LINES = 14
STREAMED_COLUMNS = 74
"""Of an answer that is under way: its end."""
Begin = Callable[[], Chain]
"""Asks the daemon for the work to watch."""


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
        """Record the reason why an attempt failed."""
        self._failures[attempt_id] = failure
        self.show()

    @work(thread=True)
    def action_cancel(self) -> None:
        """Request the cancellation of the chain, whose end arrives as an event."""
        self._cancelled = True
        if self._chain is not None:
            self._session.cancel(self._chain)

    def apply(self, event: StreamEvent) -> None:
        """Apply an event of the chain to the displayed state."""
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
        """Display the current state."""
        self.query_one("#progress", Static).update(to_rich_text(self._progress_lines()))

    def _progress_lines(self) -> Iterator[StyledLine]:
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
            yield from self._answer_lines(one)
        if under_way:
            yield from self._progress.lines()
        else:
            yield build_line(
                ("▸ ", "cyan"), "waiting for an answer" if not self._heard else "receiving an answer"
            )
            yield from (build_line(f"  {each}") for each in format_streamed_lines(self._heard))

    def _answer_lines(self, one: Document) -> Iterator[StyledLine]:
        """Return the lines that describe an answer's outcome and the provider's reason."""
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
