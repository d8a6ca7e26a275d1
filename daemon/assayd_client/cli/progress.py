"""Show how an attempt gets on, from its events, while it runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from assayd.errors import AssaydError
from assayd_client import Document, PlainClient, StreamEvent
from assayd_client.cli.amounts import count
from assayd_client.cli.kinds import command_line_of
from assayd_client.cli.report import render_stages
from assayd_client.cli.screen import Screen, StyledLine, line
from assayd_client.cli.terminal import plain

WORDS = {
    "queued": "waiting for a turn",
    "checking": "reading the source",
    "leasing": "waiting for a container",
    "running": "running",
    "judging": "judging",
    "finished": "finished",
}
MOST_PRINTED = 8
"""Lines of what the code printed that are shown while it runs."""
MOST_CHARS = 1000
"""Of one of them."""


class ProgressView:
    """What is known so far; `apply` takes an event, `lines` shows the whole."""

    def __init__(self, kind: str) -> None:
        self._noun = command_line_of(kind).case
        self._stages: list[Document] = []
        self._state = "queued"
        self._unit: Document | None = None
        self._printed: deque[str] = deque([""], maxlen=MOST_PRINTED + 1)

    def apply(self, event: StreamEvent) -> None:
        """Take in one event."""
        body = event.body
        if event.kind == "state":
            self._state = body.get("state", self._state)
        elif event.kind == "stage":
            self._stages.append(
                {
                    "name": str(body.get("name")),
                    "status": body.get("status", "passed"),
                    "duration_ms": body.get("duration_ms", 0.0),
                    "findings": [None] * int(body.get("findings") or 0),
                }
            )
        elif event.kind == "unit":
            self._unit = body
        elif event.kind in {"stdout", "stderr"}:
            first, *others = str(body.get("text", "")).split("\n")
            self._printed[-1] = (self._printed[-1] + first)[:MOST_CHARS]
            self._printed.extend(each[:MOST_CHARS] for each in others)

    def lines(self) -> Iterator[StyledLine]:
        """Return the lines to show: stages, what is being done, and the last that the code printed."""
        yield from render_stages(self._stages)
        yield line(("▸ ", "cyan"), self._doing())
        printed = [each for each in self._printed if each][-MOST_PRINTED:]
        yield from (line(("  │ ", "dim"), plain(each.expandtabs(8))) for each in printed)

    def _doing(self) -> str:
        if self._state == "running" and self._unit is not None:
            total = int(self._unit.get("total") or 0)
            return f"sandbox ▸ {self._unit.get('index')}/{count(total, self._noun)}"
        return WORDS.get(self._state, self._state)


def follow(client: PlainClient, attempt: Document, screen: Screen) -> None:
    """Show an attempt's progress until it is finished; leaves the screen as it was."""
    progress = ProgressView(attempt["kind"])
    drawn = screen.redraw(progress.lines(), 0)
    try:
        for event in client.events(attempt["id"]):
            progress.apply(event)
            drawn = screen.redraw(progress.lines(), drawn)
    except AssaydError:
        return  # the display alone is lost; whoever waits for the verdict reports what matters
    finally:
        screen.redraw((), drawn)
