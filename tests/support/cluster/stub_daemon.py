"""A daemon that runs nothing: each submission names the time and the verdict of its end.

An attempt whose submission has `queues` waits in the queue until its end.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
import time
from collections.abc import Iterator

from support.cluster.unix_http import Answer, Request, refusal

CONTAINER = {"image": "assayd/python", "image_digest": "sha256:00", "engine": "oci 1.8.1"}


class StubDaemon:
    def __init__(self) -> None:
        self.ready = True
        self.readiness: dict[str, object] = {"status": "ready", "max_runs": 2}
        self.submitted: list[str] = []
        self.most_runs: dict[str, str | None] = {}
        self.traces: dict[str, str | None] = {}
        self.cancelled: list[str] = []
        self._ends: dict[str, float] = {}
        self._wanted: dict[str, dict[str, object]] = {}
        self.away = False
        self.full = False
        self._followed: set[str] = set()
        self._lock = threading.Condition()

    def answer(self, asked: Request) -> Answer:  # noqa: C901, PLR0911  # a case per route
        if self.away:
            return refusal(503, "not_ready")
        match asked.path.split("/")[1:]:
            case ["readyz"]:
                return Answer(200, self.readiness) if self.ready else refusal(503, "not_ready")
            case ["v1", "policies"]:
                return Answer(200, {"policies": [{"name": "script", "digest": "a" * 64}]})
            case ["v1", "attempts", attempt_id] if asked.method == "PUT":
                if self.full:
                    return refusal(429, "queue.full", retryable=True)
                if json.loads(asked.body).get("refused"):
                    return refusal(422, "invalid")
                with self._lock:
                    if attempt_id not in self._ends:
                        self.submitted.append(attempt_id)
                        self.most_runs[attempt_id] = asked.query.get("max_runs")
                        self.traces[attempt_id] = asked.trace
                        self._wanted[attempt_id] = wanted = json.loads(asked.body)
                        self._ends[attempt_id] = time.monotonic() + wanted.get("takes_s", 0)
                return self._attempt(attempt_id, float(asked.query.get("wait_s", 0)))
            case ["v1", "attempts", attempt_id]:
                return self._attempt(attempt_id, float(asked.query.get("wait_s", 0)))
            case ["v1", "attempts", attempt_id, "cancel"]:
                self.cancel(attempt_id)
                return self._attempt(attempt_id, 0)
            case ["v1", "attempts", attempt_id, "events"]:
                return Answer(200, self._events(attempt_id))
            case ["v1", "attempts", attempt_id, "bundle"]:
                return Answer(200, _packed(self._contents(attempt_id)))
        return refusal(404, "not_found")

    def cancel(self, attempt_id: str) -> None:
        """Cancel an attempt."""
        with self._lock:
            self.cancelled.append(attempt_id)
            self._ends[attempt_id] = 0
            self._lock.notify_all()

    def wait_until_followed(self, attempt_id: str) -> None:
        """Wait until a client follows an attempt's events."""
        with self._lock:
            assert self._lock.wait_for(lambda: attempt_id in self._followed, 30)

    def _events(self, attempt_id: str) -> Iterator[bytes]:
        with self._lock:
            self._followed.add(attempt_id)
            self._lock.notify_all()
        for seq in (1, 2, 3):
            if seq == 3 or (seq == 2 and self._wanted[attempt_id].get("queues")):
                self._wait(attempt_id, 60)
            yield b"data: " + json.dumps(self._event(attempt_id, seq)).encode() + b"\n\n"

    def _wait(self, attempt_id: str, timeout_s: float) -> bool:
        until = time.monotonic() + timeout_s
        with self._lock:
            while (left_s := min(self._ends[attempt_id], until) - time.monotonic()) > 0:
                self._lock.wait(left_s)
            return time.monotonic() >= self._ends[attempt_id]

    def _attempt(self, attempt_id: str, wait_s: float) -> Answer:
        done = self._wait(attempt_id, wait_s)
        wanted = self._wanted[attempt_id]
        verdict = str(wanted.get("verdict", "validated"))
        contents = self._contents(attempt_id) if done else {}
        document = {
            "id": attempt_id,
            "state": "finished" if done else "queued" if wanted.get("queues") else "running",
            "verdict": verdict if done else None,
            "error": {"code": "attempt.interrupted", "message": "stub"} if verdict == "error" else None,
            "run_number": 1,
            "execution": {"container": CONTAINER} if done else None,
            "artifacts": [_artifact(name, content) for name, content in contents.items()],
        }
        return Answer(200, document)

    def _contents(self, attempt_id: str) -> dict[str, bytes]:
        size = int(str(self._wanted[attempt_id].get("large_bytes", 0)))
        return {"report.json": b"{}", **({"out/large.bin": b"x" * size} if size else {})}

    def _event(self, attempt_id: str, seq: int) -> dict[str, object]:
        kind = "finished" if seq == 3 else "state"
        body = {"verdict": "validated"} if seq == 3 else {"state": ("queued", "running")[seq - 1]}
        at = "2026-01-01T00:00:00.000Z"
        return {"id": f"1.{seq}", "attempt_id": attempt_id, "kind": kind, "at": at, "body": body}


def _artifact(name: str, content: bytes) -> dict[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    return {
        "name": name,
        "bytes": len(content),
        "sha256": digest,
        "media_type": "text/plain",
        "truncated": False,
    }


def _packed(contents: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"20260101T000000.000000Z_bundle/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()
