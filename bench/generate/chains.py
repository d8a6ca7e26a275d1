"""The chains that people answer: requests in words, and broken submissions to repair.

40 of each are evenly spread over what other benchmarks have; the others are harder ones (`hard.toml`).

Each chain has a provider of its own name at the daemon, so that its answers are its own. The order mixes
kinds; it is the same each time.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from assayd_client import Document, PlainClient
from bench.generate import intents
from bench.generate.intents import Intent
from bench.repair import cases
from bench.repair.cases import Case, merged
from bench.repair.run import shown

REQUESTS = {"extractor": 9, "code": 9, "pipeline": 8, "module": 6, "fifth": 8}
REPAIRS = {"extractor": 9, "code": 8, "script": 4, "module": 6, "bash": 5, "sql": 5, "fifth": 3}
MOST = 4
"""Answers of one chain."""
WAIT_S = 120
POLL_S = 0.5
PRINTING = frozenset({"pipeline", "fifth"})
"""Kinds whose last case prints what hidden inputs lead to."""

One = TypeVar("One", Intent, Case)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A chain that has ended. `attempt_id` is its validated attempt, if any."""

    outcome: str
    attempt_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request in words."""

    intent: Intent
    group: str = "request"

    @property
    def kind(self) -> str:
        """Return the kind of the code that is requested."""
        return self.intent.kind

    @property
    def id(self) -> str:
        """Return its name, which is also its provider's."""
        return f"request-{self.kind}-{self.intent.name}"

    def run(self, client: PlainClient) -> Ended:
        """Have the request answered."""
        made = client.generate(
            kind=self.kind,
            intent=self.intent.words,
            context=self.intent.context,
            provider=self.id,
            max_attempts=MOST,
        )
        while (ended := client.generation(made["id"]))["outcome"] is None:
            time.sleep(POLL_S)
        good = ended["outcome"] == "validated"
        return Ended(outcome=ended["outcome"], attempt_id=ended["attempt_id"] if good else None)

    def is_right(self, client: PlainClient, attempt_id: str) -> bool:
        """Return whether validated code does the same as the right answer with the hidden inputs."""
        payload = _payload(client, attempt_id)
        verdict, printed = self._seen(client, payload)
        if verdict != "validated" or self.kind not in PRINTING:
            return verdict == "validated"
        right = {name: value for name, value in self.intent.right.items() if name != "reason"}
        return printed == self._seen(client, merged(payload, right))[1]

    def _seen(self, client: PlainClient, payload: Document) -> tuple[str, str | None]:
        hidden = merged(payload, self.intent.held_out)
        if self.intent.look is not None:
            hidden["steps"] = [*hidden["steps"], self.intent.look]
        again = client.submit({"kind": self.kind, "payload": hidden}, wait_s=WAIT_S)
        cases = (again["report"]["runtime_results"] or {}).get("cases") or []
        return again["verdict"], cases[-1]["stdout"] if cases and self.kind in PRINTING else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A broken submission."""

    case: Case
    group: str = "repair"

    @property
    def kind(self) -> str:
        """Return the kind of the broken code; of pipelines the type of the step."""
        return self.case.kind

    @property
    def id(self) -> str:
        """Return its name, which is also its provider's."""
        return f"repair-{self.kind}-{self.case.name}"

    def run(self, client: PlainClient) -> Ended:
        """Have the submission repaired."""
        wanted = {
            **self.case.submission(self.case.broken),
            "repair": {"provider": self.id, "max_attempts": MOST},
        }
        attempt = client.submit(wanted, wait_s=WAIT_S)
        [repair] = client.repairs_of(attempt["id"])["repairs"]
        while (ended := client.repair_state(repair["id"]))["outcome"] is None:
            time.sleep(POLL_S)
        if ended["outcome"] != "repaired":
            return Ended(outcome=ended["outcome"], attempt_id=None)
        return Ended(outcome="validated", attempt_id=ended["attempts"][-1]["attempt_id"])

    def is_right(self, client: PlainClient, attempt_id: str) -> bool:
        """Return whether validated code does the same as the right text, also with the hidden inputs."""
        payload = _payload(client, attempt_id)
        right = self.case.submission(self.case.right)
        return all(
            self._seen(client, merged(payload, hidden))
            == self._seen(client, merged(right["payload"], hidden))
            for hidden in ({}, self.case.held_out)
        )

    def _seen(self, client: PlainClient, payload: Document) -> object:
        kind = self.case.submission("")["kind"]
        again = client.submit({"kind": kind, "payload": payload}, wait_s=WAIT_S)
        if again["execution"] is None:  # it was only read: its words are all that it has
            return " ".join(str(payload["code"]).split())
        return shown(again)


def _payload(client: PlainClient, attempt_id: str) -> Document:
    names = [one["name"] for one in client.attempt(attempt_id)["artifacts"]]
    name = next(one for one in names if one.startswith("submission_"))
    payload: Document = json.loads(client.artifact(attempt_id, name))["payload"]
    return payload


def load() -> list[Request | Repair]:
    """Return all chains, kinds mixed."""
    requests = [Request(intent=one) for one in (*_spread(intents.load(), REQUESTS), *intents.hard())]
    repairs = [Repair(case=one) for one in (*_spread(cases.load(), REPAIRS), *cases.hard())]
    return sorted([*requests, *repairs], key=lambda one: hashlib.sha256(one.id.encode()).digest())


def _spread(found: Sequence[One], counts: Mapping[str, int]) -> Iterator[One]:
    """Return so many of each kind, evenly spread over those that exist."""
    for kind, count in counts.items():
        of_kind = [one for one in found if one.kind == kind]
        yield from (of_kind[n * len(of_kind) // count] for n in range(count))
