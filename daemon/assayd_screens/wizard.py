"""Runs the screens in sequence, beginning with a request or an attempt."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from textual import events, work
from textual.app import App

from assayd.errors import AssaydError
from assayd_client.cli.generate import GenerateOptions, SaveTarget, propose_name
from assayd_client.cli.options import CANCELLED, FAILED, VALIDATED
from assayd_screens.asking import Asking
from assayd_screens.result import AcceptedRules, Begin, ProgressScreen, Result, Step
from assayd_screens.session import ChainOutcome, GenerationInput, GenerationOptions, WizardSession


@dataclass(frozen=True, slots=True, kw_only=True)
class WizardResult:
    """The result of a session of screens.

    Attributes:
        code: the exit code.
        approved: the name and version of an approved entry.
        rules: the rules that were accepted instead of code.
        outcome: the last outcome that was shown.
    """

    code: int
    approved: str | None = None
    rules: AcceptedRules | None = None
    outcome: ChainOutcome | None = None


class Wizard(App[WizardResult]):
    """An application that runs the screens of `assay generate` and `assay review`.

    Args:
        asked: the known part of the request; None to review an attempt.
        given: the options of the command line.
        reviewed: the attempt with which to begin, if any.
        name: the name of the entry to approve; if it is empty, a name is proposed.
        out: the file or folder for the approved code, or the file for accepted rules.
    """

    CSS = """
    Screen { padding: 0 1; }
    #trouble { height: auto; max-height: 3; color: $text-error; }
    TextArea, Select { border: round $foreground 50%; padding: 0 1; }
    TextArea:focus, Select:focus { border: round $primary; }
    .wrong, .wrong:focus { border: round $text-error; border-subtitle-color: $text-error; }
    .words { height: 5; } .few { height: 4; }
    #last { height: 3; } #last Select { width: 1fr; height: 3; } #last Button { margin-left: 1; }
    #database { height: 3; }
    .dialog { height: auto; border: round $foreground; padding: 0 1; margin: 4 2; }
    """
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        session: WizardSession,
        *,
        asked: GenerationInput | None = None,
        given: GenerateOptions | None = None,
        reviewed: str | None = None,
        name: str = "",
        out: Path | None = None,
    ) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.title = "assay"
        self._session, self._asked, self._given = session, asked, given
        self._reviewed, self._wanted, self._out = reviewed, name, out
        self._trouble: AssaydError | None = None
        self._typed = ""
        self._outcome: ChainOutcome | None = None
        self._earlier: ChainOutcome | None = None

    def on_mount(self) -> None:
        """Start the sequence with the first screen."""
        self.go()

    @work
    async def go(self) -> None:
        """Show screens in sequence until the user is done."""
        begin: Begin | None = None if self._reviewed is None else partial(self._session.known, self._reviewed)
        while (begin := begin or await self._ask_for_request()) is not None:
            came = await self.push_screen_wait(ProgressScreen(self._session, begin, kind=self._current_kind))
            self._trouble = came if isinstance(came, AssaydError) else None
            if isinstance(came, ChainOutcome):
                passed = self._outcome is not None and self._outcome.validated
                self._earlier = self._outcome if passed else self._earlier
                self._outcome = came.following(self._outcome)
            begin = None
            if self._outcome is None and self._asked is None:
                self.exit(
                    WizardResult(code=FAILED),
                    return_code=FAILED,
                    message=_get_message_or_empty(self._trouble),
                )
                return
            while self._outcome is not None and begin is None:
                step = await self._show_result(self._outcome)
                if step.back and self._earlier is not None:
                    other = self._outcome if self._outcome.validated else None
                    self._outcome, self._earlier = self._earlier, other
                elif step.begin is None:
                    self._exit_with_result(step, self._outcome)
                    return
                begin = step.begin
        self.exit(WizardResult(code=CANCELLED))

    def _exit_with_result(self, step: Step, outcome: ChainOutcome) -> None:
        good = step.approved is not None or step.rules is not None or outcome.validated
        code = VALIDATED if good else FAILED
        self.exit(WizardResult(code=code, approved=step.approved, rules=step.rules, outcome=outcome))

    async def _ask_for_request(self) -> Begin | None:
        """Ask the user for a request, and return the function that submits it.

        The result is None if the user leaves.
        """
        if self._asked is None or self._given is None:
            return None
        offered = await self._fetch_options(self._asked.kind)
        screen = Asking(self._asked, self._given, offered=offered, trouble=self._trouble, typed=self._typed)
        self._typed = ""
        entered = await self.push_screen_wait(screen)
        if entered is None:
            return None
        self._asked, self._given = entered.asked, entered.given
        return partial(self._session.begin, self._asked)

    async def _fetch_options(self, kind: str) -> GenerationOptions:
        """Return the context that a kind accepts. If the request fails, the screen shows the error."""
        try:
            return await asyncio.to_thread(self._session.get_generation_options, kind)
        except AssaydError as problem:
            self._trouble = self._trouble or problem
            return GenerationOptions()

    def on_key(self, event: events.Key) -> None:
        """Keep text that is typed before the first screen, as input for the first field."""
        if isinstance(self.screen, Asking):
            self.screen.on_key(event)  # the key was meant for the previous screen
        elif len(self.screen_stack) == 1 and event.is_printable and event.character:
            self._typed += event.character

    async def _show_result(self, outcome: ChainOutcome) -> Step:
        regenerate: Begin | None = None
        if self._asked is not None:
            regenerate = partial(self._session.begin, self._asked)
        elif outcome.generation_id is not None:
            regenerate = partial(self._session.again, outcome.generation_id)
        screen = Result(
            self._session,
            outcome,
            wanted=SaveTarget(
                name=self._wanted or propose_name(outcome.intent, self._current_kind), out=self._out
            ),
            regenerate=regenerate,
            trouble=_get_message_or_empty(self._trouble),
            has_earlier=self._earlier is not None,
        )
        self._trouble = None
        return await self.push_screen_wait(screen)

    @property
    def _current_kind(self) -> str:
        submission = self._outcome.submission if self._outcome is not None else None
        if self._asked is not None:
            return self._asked.kind
        return str(submission["kind"]) if submission is not None else ""


def _get_message_or_empty(trouble: AssaydError | None) -> str:
    return "" if trouble is None else trouble.message
