"""Who is logged in: a token that can be used once becomes a session that a cookie carries."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

TOKEN_BYTES = 32
LASTS_S = 12 * 3600
"""How long a session lasts."""
MOST = 16
"""Sessions at once; the oldest ends for one more."""


class Sessions:
    """Tokens that wait for their one use, and the sessions that came of others. Kept in memory alone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._token = ""
        self._ends: dict[str, float] = {}

    def offer(self) -> str:
        """Return a new token; one that was offered before and not used is void."""
        self._token = secrets.token_urlsafe(TOKEN_BYTES)
        return self._token

    def redeem(self, token: str) -> str | None:
        """Return a session for the token that was offered, once; None for anything else."""
        if not self._token or not secrets.compare_digest(token.encode(), self._token.encode()):
            return None
        self._token = ""
        session = secrets.token_urlsafe(TOKEN_BYTES)
        self._ends = dict([*self._ends.items(), (session, self._clock() + LASTS_S)][-MOST:])
        return session

    def knows(self, session: str) -> bool:
        """Return whether a cookie's session is one of ours and has not ended."""
        wanted = session.encode()
        found = [end for each, end in self._ends.items() if secrets.compare_digest(each.encode(), wanted)]
        return bool(found) and found[0] > self._clock()

    def end(self, session: str) -> None:
        """End a session."""
        self._ends.pop(session, None)
