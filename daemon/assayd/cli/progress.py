"""Show how an attempt gets on, from its events, while it runs."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from assayd.cli.kinds import command_line_of
from assayd.cli.report import count, render_stages
from assayd.client import Document, PlainClient, StreamEvent
from assayd.errors import AssaydError

WORDS = {
    "queued": "waiting for a turn",
    "checking": "reading the source",
    "leasing": "waiting for a container",
    "running": "running",
    "judging": "judging",
    "finished": "finished",
}


class ProgressView:
    """What is known so far; `apply` takes an event, `lines` shows the whole."""

    def __init__(self, kind: str) -> None:
        self._noun = command_line_of(kind).case
        self._stages: list[Document] = []
        self._state = "queued"
        self._unit: Document | None = None

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

    def lines(self) -> Iterator[Text]:
        """Return the lines to show."""
        yield from render_stages(self._stages)
        yield Text.assemble(("▸ ", "cyan"), self._doing())

    def _doing(self) -> str:
        if self._state == "running" and self._unit is not None:
            total = int(self._unit.get("total") or 0)
            return f"sandbox ▸ {self._unit.get('index')}/{count(total, self._noun)}"
        return WORDS.get(self._state, self._state)


def follow(client: PlainClient, attempt: Document, console: Console) -> None:
    """Show an attempt's progress until it is finished; leaves the screen as it was."""
    progress = ProgressView(attempt["kind"])
    with Live(Group(*progress.lines()), console=console, transient=True) as live:
        try:
            for event in client.events(attempt["id"]):
                progress.apply(event)
                live.update(Group(*progress.lines()))
        except AssaydError:
            return  # the display alone is lost; whoever waits for the verdict reports what matters
