"""A gateway made of a few dictionaries: it counts claims like a real one, and stores the reports of nodes."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from support.cluster.unix_http import Answer, Request, refusal

TICKET = "t" * 43


@dataclass
class Known:
    """One attempt: its submission, its holder, and what was reported."""

    document: dict[str, object]
    holders: list[str] = field(default_factory=list)
    verdicts: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    refusals: list[object] = field(default_factory=list)
    events: list[object] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)


class StubGateway:
    """`live_s`: how long a node keeps its runs after its last heartbeat."""

    def __init__(self, *, live_s: float = 15.0) -> None:
        self.attempts: dict[str, Known] = {}
        self.consume = True
        self.away = False
        self.refuses: dict[str, Answer] = {}
        self.refused: Counter[str] = Counter()
        self.cancels: list[str] = []
        self.beats: dict[str, dict[str, object]] = {}
        self._beaten: dict[str, float] = {}
        self._live_s = live_s
        self.changed = threading.Condition()

    def answer(self, asked: Request) -> Answer:
        with self.changed:
            if self.away:
                return refusal(503, "not_ready")
            _, _, _, node, *rest = asked.path.split("/")
            last = rest[-1] if rest else ""
            self.refused[last] += last in self.refuses
            answer = self.refuses.get(last) or self._answer(asked, node, rest)
            self.changed.notify_all()
            return answer

    def wait_for(self, condition: object, timeout_s: float = 60.0) -> None:
        """Wait until a condition holds; it is checked after each request of a node."""
        assert callable(condition)
        with self.changed:
            assert self.changed.wait_for(condition, timeout_s), "the cluster did not come to that in time"

    def finished(self) -> bool:
        """Return whether every attempt has a verdict."""
        return all(known.verdicts for known in self.attempts.values())

    def _answer(self, asked: Request, node: str, rest: list[str]) -> Answer:
        match rest:
            case []:
                self.beats[node] = json.loads(asked.body)
                self._beaten[node] = time.monotonic()
                return Answer(200, {"consume": self.consume, "why": "" if self.consume else "stub"})
            case ["cancelled"]:
                self.changed.wait_for(lambda: self.cancels, 0.5)
                cancels, self.cancels = self.cancels, []
                return Answer(200, {"attempts": cancels})
            case ["runs"]:
                return self._claim(node, json.loads(asked.body))
            case ["runs", attempt, number, *what]:
                known = self.attempts[attempt]
                if known.holders[int(number) - 1] != node:
                    return refusal(403, "run.foreign")
                return self._take(known, node, what, asked)
        return refusal(404, "not_found")

    def _claim(self, node: str, said: dict[str, str]) -> Answer:
        known = self.attempts.get(said["attempt"])
        if known is None or said["ticket"] != TICKET:
            return refusal(403, "ticket.wrong")
        if known.verdicts:
            return refusal(410, "run.over")
        if not known.holders or known.holders[-1] != node:
            if known.holders and time.monotonic() - self._beaten.get(known.holders[-1], 0) < self._live_s:
                return refusal(409, "run.held")
            if len(known.holders) == 2:
                known.verdicts.append(("", {"error": "run.lost"}))
                return refusal(410, "run.over")
            known.holders.append(node)
        document = json.dumps(known.document)
        facts = {"uid": 0, "kind": "script", "policy": "script"}
        claimed = {"run": len(known.holders), "document": document}
        return Answer(200, {**claimed, **facts})

    def _take(self, known: Known, node: str, what: list[str], asked: Request) -> Answer:
        match what:
            case ["events"]:
                known.events += json.loads(asked.body)["events"]
            case ["files", digest]:
                if hashlib.sha256(asked.body).hexdigest() != digest:
                    return refusal(400, "digest.wrong")
                known.files[digest] = len(asked.body)
            case ["verdict"]:
                verdict = json.loads(asked.body)
                if verdict.get("lost"):
                    known.lost.append(node)
                    known.refusals.append(verdict.get("refused"))
                else:
                    known.verdicts.append((node, verdict))
        return Answer(200, {"counted": len(known.verdicts) == 1})
