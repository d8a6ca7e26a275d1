"""Show how a batch gets on: a bar on a terminal, nothing otherwise; and outlast a daemon that goes away."""

from __future__ import annotations

import sys
import time
from collections import deque

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from assayd_client import DaemonUnreachable, Document, PlainClient
from assayd_client.cli.terminal import plain

OVER = ("finished", "cancelled")
RATE_OVER_S = 30.0
"""The rate is that of the last seconds, so that it follows what the daemon does now."""
AWAY_S = 60.0
"""How long a daemon may be away before following is given up; the batch goes on when it is back."""
LOOK_AGAIN_S = 0.5


class Rate:
    """How many items end per second, lately."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, at_s: float, done: int) -> None:
        """Take in how many are done at a time."""
        self._seen.append((at_s, done))
        while len(self._seen) > 2 and self._seen[1][0] < at_s - RATE_OVER_S:
            self._seen.popleft()

    @property
    def per_second(self) -> float:
        """Return the rate; 0 while nothing is known."""
        (began, first), (ended, last) = self._seen[0], self._seen[-1]
        return (last - first) / (ended - began) if ended > began else 0.0

    def remaining(self, waiting: int) -> str:
        """Return how long the rest will take at this rate."""
        if not waiting:
            return "0:00"
        if not self.per_second:
            return "-:--"
        seconds = round(waiting / self.per_second)
        hours, rest = divmod(seconds, 3600)
        return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def follow(client: PlainClient, batch: Document) -> Document:
    """Follow a batch to its end; return it as it is then.

    Raises: DaemonUnreachable, when the daemon does not come back.
    """
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} · {task.fields[told]}"),
        console=Console(stderr=True, highlight=False),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task(plain(batch["name"]), total=batch["counts"]["total"], told="")
        rate, gone_since = Rate(), None
        while True:
            try:
                for event in client.batch_events(batch["id"]):
                    counts = event.body
                    rate.note(time.monotonic(), counts["total"] - counts["waiting"])
                    bar.update(task, total=counts["total"], completed=_done(counts), told=told(counts, rate))
                    gone_since = None
                batch = client.batch(batch["id"])
            except DaemonUnreachable:
                gone_since = gone_since or time.monotonic()
                if time.monotonic() - gone_since > AWAY_S:
                    raise
                bar.update(task, told="the daemon is away")
            else:
                if batch["state"] in OVER and not batch["counts"]["running"]:
                    return batch
            time.sleep(LOOK_AGAIN_S)


def told(counts: Document, rate: Rate) -> str:
    """Word what is known beside the bar."""
    failed = counts["failed"] + counts["error"] + counts["cancelled"]
    return f"{failed} failed · {rate.per_second:.1f}/s · {rate.remaining(counts['waiting'])} left"


def _done(counts: Document) -> int:
    done: int = counts["total"] - counts["waiting"]
    return done
