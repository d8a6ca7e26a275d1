"""What can be asked of the daemon, written once; how a request is sent is left to the two clients."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

DocumentT = TypeVar("DocumentT")
BytesT = TypeVar("BytesT")
EventsT = TypeVar("EventsT")
DocumentsT = TypeVar("DocumentsT")

PATIENCE_S = 30.0
"""How long an answer may take beyond the time that was asked for."""
BATCH_S = 300.0
"""How long the end of a batch may take to be taken in."""
GARBAGE_S = 3600.0
"""How long a removal of many attempts may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request, before it is sent."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    document: Mapping[str, object] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0


class Verbs(ABC, Generic[DocumentT, BytesT, EventsT, DocumentsT]):
    """The verbs that both clients have."""

    @abstractmethod
    def _ask(self, ask: Ask) -> DocumentT:
        """Send a request and give the JSON object that is the answer."""

    @abstractmethod
    def _ask_bytes(self, ask: Ask) -> BytesT:
        """Send a request and give the answer as it is."""

    @abstractmethod
    def _ask_events(self, ask: Ask) -> EventsT:
        """Send a request and give the events of the answer, as they come."""

    @abstractmethod
    def _ask_lines(self, ask: Ask) -> DocumentsT:
        """Send a request and give the JSON objects that the lines of the answer are, as they come."""

    def submit(
        self,
        submission: Mapping[str, object],
        *,
        wait_s: float = 0,
        attempt_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> DocumentT:
        """Submit code and give the attempt, finished if that happens within `wait_s` (at most 600).

        With an `attempt_id` (a ULID) or a key, sending the same again gives the same attempt.
        """
        return self._ask(
            Ask(
                method="PUT" if attempt_id else "POST",
                path=f"/v1/attempts/{attempt_id}" if attempt_id else "/v1/attempts",
                query=wait_query(wait_s),
                document=submission,
                headers={"Idempotency-Key": idempotency_key} if idempotency_key else {},
                wait_s=wait_s,
            )
        )

    def attempt(self, attempt_id: str, *, wait_s: float = 0) -> DocumentT:
        """Return one attempt; waits up to `wait_s` (at most 600) for its verdict."""
        return self._ask(
            Ask(method="GET", path=path("attempts", attempt_id), query=wait_query(wait_s), wait_s=wait_s)
        )

    def attempts(self, **filters: str | int | Sequence[str] | None) -> DocumentT:
        """Return a page of attempts; the filters are those of the API, `label` as a list of ``key=value``."""
        return self._ask(Ask(method="GET", path="/v1/attempts", query=filter_query(filters)))

    def cancel(self, attempt_id: str) -> DocumentT:
        """Ask an attempt to end. Raises: ClientError ``attempt.finished``."""
        return self._ask(Ask(method="POST", path=path("attempts", attempt_id, "cancel")))

    def replay(self, attempt_id: str, *, wait_s: float = 0) -> DocumentT:
        """Submit the same as an attempt once more; finished, the new one has `replay_diff`."""
        return self._ask(
            Ask(
                method="POST",
                path=path("attempts", attempt_id, "replay"),
                query=wait_query(wait_s),
                wait_s=wait_s,
            )
        )

    def events(self, attempt_id: str, *, after: str | None = None) -> EventsT:
        """Follow an attempt, from the event after that id, up to `finished`."""
        return self._ask_events(_follow(path("attempts", attempt_id, "events"), after))

    def all_events(self, *, after: str | None = None) -> EventsT:
        """Follow all attempts that this user may see, without end."""
        return self._ask_events(_follow("/v1/events", after))

    def artifact(self, attempt_id: str, name: str) -> BytesT:
        """Return one file of an attempt's bundle."""
        return self._ask_bytes(
            Ask(method="GET", path=path("attempts", attempt_id, "artifacts") + f"/{quote(name)}")
        )

    def bundle(self, attempt_id: str) -> BytesT:
        """Return all files of an attempt as a tar archive."""
        return self._ask_bytes(Ask(method="GET", path=path("attempts", attempt_id, "bundle")))

    def batch(self, name: str) -> DocumentT:
        """Return a batch with its counts, by its id or this user's name for it."""
        return self._ask(Ask(method="GET", path=path("batches", name)))

    def batches(self, *, cursor: str | None = None, limit: int = 20) -> DocumentT:
        """Return a page of batches."""
        query = filter_query({"cursor": cursor, "limit": limit})
        return self._ask(Ask(method="GET", path="/v1/batches", query=query))

    def batch_items(self, name: str, *, after: int = 0, limit: int = 100) -> DocumentT:
        """Return a page of a batch's items, from beyond a line."""
        query = filter_query({"after": after, "limit": limit})
        return self._ask(Ask(method="GET", path=path("batches", name, "items"), query=query))

    def batch_results(self, name: str) -> DocumentsT:
        """Return every item of a batch with its attempt, in line order."""
        return self._ask_lines(Ask(method="GET", path=path("batches", name, "results"), wait_s=BATCH_S))

    def batch_events(self, name: str) -> EventsT:
        """Follow a batch up to `finished`; every event has all counts."""
        return self._ask_events(_follow(path("batches", name, "events"), None))

    def cancel_batch(self, name: str) -> DocumentT:
        """Start nothing more of a batch. Raises: ClientError ``batch.finished``."""
        return self._ask(Ask(method="POST", path=path("batches", name, "cancel")))

    def repair(self, attempt_id: str, **request: object) -> DocumentT:
        """Begin a repair of a failed attempt: provider, max_attempts, hint, code, fresh."""
        wanted = {name: value for name, value in request.items() if value is not None}
        return self._ask(Ask(method="POST", path=path("attempts", attempt_id, "repair"), document=wanted))

    def repairs_of(self, attempt_id: str) -> DocumentT:
        """Return the repairs that an attempt began or belongs to."""
        return self._ask(Ask(method="GET", path=path("attempts", attempt_id, "repairs")))

    def repairs(self, *, cursor: str | None = None, limit: int = 20) -> DocumentT:
        """Return a page of repairs, newest first."""
        query = filter_query({"cursor": cursor, "limit": limit})
        return self._ask(Ask(method="GET", path="/v1/repairs", query=query))

    def repair_state(self, repair_id: str) -> DocumentT:
        """Return one repair with its fixes."""
        return self._ask(Ask(method="GET", path=path("repairs", repair_id)))

    def repair_events(self, repair_id: str) -> EventsT:
        """Follow a repair to its end; each event has the whole repair."""
        return self._ask_events(Ask(method="GET", path=path("repairs", repair_id, "events")))

    def cancel_repair(self, repair_id: str) -> DocumentT:
        """End a repair. Raises: ClientError ``repair.finished``."""
        return self._ask(Ask(method="POST", path=path("repairs", repair_id, "cancel")))

    def accept_fallback(self, repair_id: str) -> DocumentT:
        """Take the rules that a repair offers. Raises: ClientError ``repair.no_fallback``."""
        return self._ask(Ask(method="POST", path=path("repairs", repair_id, "accept-fallback")))

    def policies(self) -> DocumentT:
        """Return all profiles."""
        return self._ask(Ask(method="GET", path="/v1/policies"))

    def policy(self, name: str) -> DocumentT:
        """Return one profile."""
        return self._ask(Ask(method="GET", path=path("policies", name)))

    def kinds(self) -> DocumentT:
        """Return all kinds."""
        return self._ask(Ask(method="GET", path="/v1/kinds"))

    def kind(self, name: str) -> DocumentT:
        """Return one kind: payload schema, stages, rules."""
        return self._ask(Ask(method="GET", path=path("kinds", name)))

    def pipelines(self, **filters: str | int | None) -> DocumentT:
        """Return a page of stored pipelines; the filters are those of the API."""
        return self._ask(Ask(method="GET", path="/v1/pipelines", query=filter_query(filters)))

    def pipeline(self, pipeline_id: str) -> DocumentT:
        """Return one stored pipeline with its steps and attempts."""
        return self._ask(Ask(method="GET", path=path("pipelines", pipeline_id)))

    def doctor(self) -> DocumentT:
        """Let the daemon examine itself."""
        return self._ask(Ask(method="GET", path="/v1/doctor", wait_s=PATIENCE_S))

    def collect_garbage(self, *, dry_run: bool = False) -> DocumentT:
        """Remove what is too old or too much; for operators."""
        query = (("dry_run", "true"),) if dry_run else ()
        return self._ask(Ask(method="POST", path="/v1/gc", query=query, wait_s=GARBAGE_S))

    def metrics(self) -> BytesT:
        """Return the metrics in Prometheus' text format."""
        return self._ask_bytes(Ask(method="GET", path="/metrics"))


def send_batch(name: str | None, concurrency: int | None, dedupe: bool | None) -> Ask:
    """Return the request that sends lines; they are its body."""
    chosen = None if dedupe is None else str(dedupe).lower()
    query = filter_query({"name": name, "concurrency": concurrency, "dedupe": chosen})
    headers = {"Content-Type": "application/x-ndjson"}
    return Ask(method="POST", path="/v1/batches", query=query, headers=headers, wait_s=BATCH_S)


def path(*parts: str) -> str:
    """Return a path of the API, whatever is in its parts."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def wait_query(wait_s: float) -> Sequence[tuple[str, str]]:
    """Return the parameter that says how long to wait."""
    return (("wait_s", f"{wait_s:g}"),) if wait_s else ()


def filter_query(filters: Mapping[str, str | int | Sequence[str] | None]) -> list[tuple[str, str]]:
    """Return filters as parameters; None stands for one that is not set."""
    query: list[tuple[str, str]] = []
    for name, value in filters.items():
        if isinstance(value, str | int):
            query.append((name, str(value)))
        else:
            query += [(name, item) for item in value or ()]
    return query


def arguments(ask: Ask) -> dict[str, Any]:
    """Return a request as the HTTP library wants it."""
    return {
        "method": ask.method,
        "url": ask.path,
        "params": list(ask.query),
        "content": None if ask.document is None else json.dumps(ask.document, allow_nan=False).encode(),
        "headers": {"Content-Type": "application/json", **ask.headers},
        "timeout": ask.wait_s + PATIENCE_S,
    }


def _follow(where: str, after: str | None) -> Ask:
    return Ask(method="GET", path=where, headers={"Last-Event-ID": after} if after else {})
