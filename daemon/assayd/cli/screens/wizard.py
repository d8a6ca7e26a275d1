"""From words, or from an attempt, to something approved: the screens one after the other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from textual import work
from textual.app import App

from assayd.cli.exits import CANCELLED, FAILED, VALIDATED
from assayd.cli.generate import Given
from assayd.cli.screens.asking import Asking
from assayd.cli.screens.result import Result, Step
from assayd.cli.screens.session import Asked, Chain, Outcome, Session
from assayd.cli.screens.watching import Begin, Watching
from assayd.errors import AssaydError


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How it came out.

    Attributes:
        code: exit code.
        approved: name and version, where something was approved.
        outcome: what was shown last.
    """

    code: int
    approved: str | None = None
    outcome: Outcome | None = None


class Wizard(App[Ended]):
    """The screens of `assay generate` and `assay review`.

    Args:
        asked: what is known of the request; None to look at an attempt.
        given: what the command line gave with it.
        reviewed: an attempt to begin with.
        name: what it is to be approved under.
    """

    CSS = """
    Screen { padding: 0 1; }
    .words { height: 5; } .few { height: 4; }
    #trouble { dock: bottom; height: auto; color: $text-error; margin-bottom: 1; }
    .dialog { height: auto; border: round $foreground; padding: 0 1; margin: 4 2; }
    """
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        session: Session,
        *,
        asked: Asked | None = None,
        given: Given | None = None,
        reviewed: str | None = None,
        name: str = "",
    ) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.title = "assay"
        self._session, self._asked, self._given = session, asked, given
        self._reviewed, self._wanted = reviewed, name
        self._trouble = ""
        self._outcome: Outcome | None = None

    def on_mount(self) -> None:
        """Begin with the first screen."""
        self.go()

    @work
    async def go(self) -> None:
        """Show screen after screen, until the person is done."""
        begin: Begin | None = None if self._reviewed is None else partial(_known, self._reviewed)
        while (begin := begin or await self._words()) is not None:
            came = await self.push_screen_wait(Watching(self._session, begin, kind=self._kind))
            self._trouble = came.message if isinstance(came, AssaydError) else ""
            self._outcome = came if isinstance(came, Outcome) else self._outcome
            begin = None
            if self._outcome is None and self._asked is None:
                self.exit(Ended(code=FAILED), return_code=FAILED, message=self._trouble)
                return
            if self._outcome is not None:
                step = await self._shown(self._outcome)
                if step.begin is None:
                    code = VALIDATED if step.approved or self._outcome.validated else FAILED
                    self.exit(Ended(code=code, approved=step.approved, outcome=self._outcome))
                    return
                begin = step.begin
        self.exit(Ended(code=CANCELLED))

    async def _words(self) -> Begin | None:
        """Ask for words, and return what asks the daemon; None when the person leaves."""
        if self._asked is None or self._given is None:
            return None
        takes = await self._taken(self._asked.kind)
        screen = Asking(self._asked, self._given, takes=takes, trouble=self._trouble)
        asked = await self.push_screen_wait(screen)
        if asked is None:
            return None
        self._asked = asked
        return partial(self._session.begin, self._asked)

    async def _taken(self, kind: str) -> frozenset[str]:
        """Return what a kind takes with the words; what is wrong with that, the screen says."""
        try:
            return await asyncio.to_thread(self._session.context_of, kind)
        except AssaydError as problem:
            self._trouble = problem.message
            return frozenset()

    async def _shown(self, outcome: Outcome) -> Step:
        regenerate = partial(self._session.begin, self._asked) if self._asked is not None else None
        return await self.push_screen_wait(
            Result(self._session, outcome, name=self._wanted, regenerate=regenerate, trouble=self._trouble)
        )

    @property
    def _kind(self) -> str:
        submission = self._outcome.submission if self._outcome is not None else None
        if self._asked is not None:
            return self._asked.kind
        return str(submission["kind"]) if submission is not None else ""


def _known(attempt_id: str) -> Chain:
    return Chain(id=attempt_id, form="attempt")
