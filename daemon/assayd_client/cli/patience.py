"""Waits while a daemon is unavailable, and cancels work if the user interrupts the wait."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from assayd_client import ClientError, Conflict, Document, PlainClient
from assayd_client.cli.options import CANCELLED

AWAY_S = 60.0
"""How long a daemon may be away, or not ready, before following ends; the batch goes on when it is back."""
LOOK_AGAIN_S = 0.5


class RetryTimer:
    """A timer that waits for an unavailable daemon, for up to `AWAY_S` seconds from the first failure."""

    def __init__(self) -> None:
        self._since: float | None = None

    def answered(self) -> None:
        """Record an answer, so that the next failure starts a new waiting period."""
        self._since = None

    def wait(self, problem: ClientError) -> None:
        """Wait before the next try.

        Raises: the problem, if it lasts too long or a retry can't succeed.
        """
        self._since = self._since or time.monotonic()
        if not problem.retryable or time.monotonic() - self._since > AWAY_S:
            raise problem
        time.sleep(LOOK_AGAIN_S)


def iter_batch_results(client: PlainClient, batch_id: str) -> Iterator[Document]:
    """Yield every item of a batch once, in line order, waiting while the daemon is unreachable."""
    patience, done = RetryTimer(), 0
    while True:
        try:
            for number, result in enumerate(client.batch_results(batch_id)):
                if number >= done:
                    yield result
                    patience.answered()
                    done += 1
        except ClientError as problem:
            patience.wait(problem)
        else:
            return


@contextmanager
def cancel_on_interrupt(cancel: Callable[[str], object], work_id: str, noun: str = "") -> Iterator[None]:
    """Cancel work in the daemon and exit if a keyboard interrupt ends the body.

    `noun` precedes the id in the message.
    """
    try:
        yield
    except KeyboardInterrupt as interrupt:
        with suppress(Conflict):  # it had ended meanwhile
            cancel(work_id)
        print(f"assay: {noun}{work_id} is cancelled", file=sys.stderr)
        raise SystemExit(CANCELLED) from interrupt
