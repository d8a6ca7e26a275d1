"""Attempts with known verdicts for a cluster; each is sent until the cluster accepts it."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from assayd.clock import UlidGenerator
from assayd_client import Document, PlainClient
from assayd_client.errors import ClientError

KINDS = ("passes", "fails", "slow", "large")
_PASSES = 'import sys\nprint("{text}")\n'
_FAILS = 'raise SystemExit("{text}")\n'
_SLOW = 'import time\ntime.sleep({seconds})\nprint("{text}")\n'
_LARGE = 'with open("large.bin", "wb") as file:\n    file.write(bytes(200_000))\nprint("{text}")\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of all submitted attempts."""

    verdicts: Counter[str]
    wrong: list[str]
    lost: list[str]
    last_at: float
    """When the last verdict was seen."""


class Load:
    """Attempts sent to one gateway, with their expected verdicts."""

    def __init__(self, socket: Path) -> None:
        self.client = PlainClient(socket)
        self._ulids = UlidGenerator()
        self._numbers = count()
        self._random = random.Random(7)
        self.expected: dict[str, str] = {}

    def submissions(
        self, number: int, *, slow_s: float = 0.3, kinds: Sequence[str] = KINDS
    ) -> list[tuple[Document, str]]:
        """Return submissions with expected verdicts: one in four fails, some are slow, some return much."""
        made = []
        for _ in range(number):
            text = f"attempt {next(self._numbers)}"
            kind = self._random.choice(kinds)
            seconds = round(slow_s * (0.5 + self._random.random()), 2)
            code = {"passes": _PASSES, "fails": _FAILS, "slow": _SLOW, "large": _LARGE}[kind]
            payload: Document = {"code": code.format(text=text, seconds=seconds)}
            if kind == "large":
                payload["collect"] = ["large.bin"]
            made.append(
                ({"kind": "script", "payload": payload}, "failed" if kind == "fails" else "validated")
            )
        return made

    def send(
        self, number: int, *, slow_s: float = 0.3, within_s: float = 120.0, kinds: Sequence[str] = KINDS
    ) -> list[str]:
        """Submit this number of attempts, each until it is accepted; return their ids."""
        made = self.submissions(number, slow_s=slow_s, kinds=kinds)
        works = [(self._ulids.new(), *each) for each in made]
        until = time.monotonic() + within_s
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda work: self._send(work[0], work[1], until), works))
        self.expected |= {attempt_id: verdict for attempt_id, _, verdict in works}
        return [attempt_id for attempt_id, _, _ in works]

    def lines(self, number: int) -> list[bytes]:
        """Return this number of lines for a batch."""
        return [json.dumps(document).encode() + b"\n" for document, _ in self.submissions(number)]

    def _send(self, attempt_id: str, document: Document, until: float) -> None:
        while True:
            try:
                self.client.submit(document, attempt_id=attempt_id)
            except ClientError as trouble:
                if not trouble.retryable or time.monotonic() > until:
                    raise
                time.sleep(0.3)
            else:
                return

    def outcome(self, ids: list[str], *, within_s: float = 180.0) -> Outcome:
        """Wait until all attempts have a verdict; those without one after the time are lost."""
        until = time.monotonic() + within_s
        verdicts = {attempt_id: self._verdict(attempt_id, until) for attempt_id in ids}
        last_at = time.monotonic()
        wrong = [
            f"{attempt_id}: {verdict}, which is to be {self.expected[attempt_id]}: {self._error(attempt_id)}"
            for attempt_id, verdict in verdicts.items()
            if verdict not in {None, self.expected[attempt_id]}
        ]
        lost = [attempt_id for attempt_id, verdict in verdicts.items() if verdict is None]
        return Outcome(verdicts=Counter(map(str, verdicts.values())), wrong=wrong, lost=lost, last_at=last_at)

    def _error(self, attempt_id: str) -> object:
        return self.client.attempt(attempt_id)["error"]

    def _verdict(self, attempt_id: str, until: float) -> str | None:
        while (left_s := until - time.monotonic()) > 0:
            try:
                verdict = self.client.attempt(attempt_id, wait_s=min(left_s, 20))["verdict"]
            except ClientError as trouble:
                if not trouble.retryable:
                    raise
                time.sleep(0.3)
                continue
            if verdict is not None:
                return str(verdict)
        return None
