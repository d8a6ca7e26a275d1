"""A node that answers immediately: it takes messages, claims runs, and reports invented verdicts."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kombu import Connection, Consumer, Exchange, Queue

from assayd import __version__
from assayd.documents import canonical, read_submission
from assayd.kinds import registry

STAMP = "20260101T000000.000000Z"
AT = "2026-01-01T00:00:00.000000Z"


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


class NodeClient:
    """A node's requests to a gateway, one after the other."""

    def __init__(self, gateway: Path, name: str, token: str) -> None:
        self.name = name
        self._connection = UnixConnection(gateway)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, below: str, body: object = None) -> tuple[int, Any]:
        content = None if body is None else json.dumps(body).encode()
        self._connection.request(method, f"/v1/nodes/{self.name}{below}", content, self._headers)
        answer = self._connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None

    def beat(self, profiles: dict[str, str], **changes: object) -> Any:
        said = {"capacity": 4, "ready": True, "version": __version__, "profiles": profiles, **changes}
        return self.ask("PUT", "", said)[1]

    def claim(self, message: dict[str, str]) -> tuple[int, Any]:
        return self.ask("POST", "/runs", {"attempt": message["attempt"], "ticket": message["ticket"]})

    def bring(self, attempt: str, claimed: dict[str, Any], **changes: object) -> tuple[int, Any]:
        return self.ask(
            "PUT", f"/runs/{attempt}/{claimed['run']}/verdict", verdict_of(attempt, claimed, **changes)
        )


_KINDS = registry.load_validators(())
_DIGESTS: dict[str, str] = {}


def verdict_of(
    attempt: str,
    claimed: dict[str, Any],
    *,
    output: dict[str, str] | None = None,
    cases: list[object] | None = None,
    **changes: object,
) -> dict[str, object]:
    """Return a verdict like a node's, with an output event if `output` is set."""
    text = claimed["document"]
    if text not in _DIGESTS:
        _DIGESTS[text] = read_submission(text.encode(), _KINDS).input_digest
    said = {"attempt_id": attempt, "kind": claimed["kind"], "status": "VALIDATED"}
    said |= {"input_digest": _DIGESTS[text], "policy_digest": "ab" * 32}
    empty: dict[str, object] = {"stages": [], "findings": [], "effective_limits": {}}
    report = canonical({**said, **empty, "runtime_results": {"cases": cases or []}})
    files = {f"validation_{STAMP}.json": report, f"execution_{STAMP}.json": b"null"}
    files |= {f"{name}_{STAMP}.log": b"" for name in ("stdout", "stderr")}
    files[f"submission_{STAMP}.json"] = text.encode()
    document = {
        "id": attempt,
        "kind": claimed["kind"],
        "policy": claimed["policy"],
        "state": "finished",
        "verdict": "validated",
        "created_at": AT,
        "started_at": AT,
        "finished_at": AT,
        "peer": {"uid": 0, "gid": 0, "pid": 0},
        "batch_id": None,
        "parent_id": None,
        "replay_of": None,
        "attempt_number": 1,
        "run_number": 1,
        "labels": {},
        "input_digest": _DIGESTS[text],
        "timings_ms": {"queued": 0.1, "static": 1, "lease": 1, "run": 1, "report": 1, "total": 4.1},
        "warm": True,
        "cause": "completed",
        "rules": [],
        "report": None,
        "execution": None,
        "replay_diff": None,
        "bundle": "x/y/z",
        "artifacts": [],
        "error": None,
        **changes,
    }
    events = [
        {"run": run, "seq": seq, "kind": "state", "at": AT, "body": {"state": state}}
        for run, seq, state in ((0, 2, "checking"), (0, 3, "leasing"), (1, 4, "running"), (1, 5, "judging"))
    ]
    if output:
        events[3]["seq"] = 6
        events.insert(3, {"run": 1, "seq": 5, "kind": "stdout", "at": AT, "body": output})
    return {"attempt": document, "events": events, "files": [_file(*each) for each in files.items()]}


def _file(name: str, content: bytes) -> dict[str, object]:
    return {
        "name": name,
        "media_type": "text/plain",
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "base64": base64.b64encode(content).decode(),
    }


class StubNode:
    """Threads that each take one message at a time from the broker."""

    def __init__(self, client: Any, broker_url: str, profiles: dict[str, str], *, threads: int = 4) -> None:
        self._client = client
        self._broker_url = broker_url
        self._profiles = profiles
        self._threads = threads
        self._ending = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(self._threads)]
        workers.append(threading.Thread(target=self._beat, daemon=True))
        for worker in workers:
            worker.start()
        try:
            yield
        finally:
            self._ending.set()
            for worker in workers:
                worker.join(30)

    def _beat(self) -> None:
        client = self._client()
        while True:
            client.beat(self._profiles, capacity=self._threads)
            if self._ending.wait(1):
                return

    def _work(self) -> None:
        client = self._client()

        def take(body: Any, message: Any) -> None:
            said = body[1]
            status, claimed = client.claim(said)
            if status == 200:
                client.bring(said["attempt"], claimed)
            message.ack()

        queue = Queue("assayd.attempts", Exchange("assayd", type="direct", no_declare=True), no_declare=True)
        with Connection(self._broker_url) as connection:
            channel = connection.channel()
            with Consumer(channel, [queue], callbacks=[take], accept=["json"], prefetch_count=1):
                while not self._ending.is_set():
                    try:
                        connection.drain_events(timeout=0.5)
                    except TimeoutError:
                        continue
