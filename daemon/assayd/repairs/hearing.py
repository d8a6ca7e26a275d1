"""What has been heard of the answer that is under way: clean text, bounded, for whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from assayd.repairs.prompt import clean

MOST_CHARS = 64 * 1024
"""Of one answer; what comes after is not shown."""
EVERY_S = 0.25
"""How often those who wait are woken, at most."""


class HeardAnswer:
    """The text of an answer so far. An empty piece says that it begins anew."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.text = ""
        self._wake = wake
        self._woke_at = 0.0

    def hear(self, piece: str) -> None:
        """Add what came; wake those who wait, unless they just were."""
        self.text = self.text + clean(piece[: MOST_CHARS - len(self.text)]) if piece else ""
        if monotonic() - self._woke_at >= EVERY_S:
            self._woke_at = monotonic()
            self._wake()

    def forget(self) -> None:
        """Forget it: the answer is on record, or nothing became of it."""
        self.text = ""
