"""Applying an extractor to paths, with an in-memory daemon."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pytest

from assayd.errors import RequestError
from assayd.model.text_limits import MAX_APPLIED_PATHS
from assayd_client import NotReady
from assayd_client.applying import PathResult, applied, parse_path_result
from assayd_client.trees import FoundFile

ENTRY = {
    "name": "quarter",
    "version": 3,
    "kind": "extractor",
    "submission": {
        "kind": "extractor",
        "policy": "extractor",
        "payload": {"code": "code", "sample_paths": ["/a"], "cases": []},
        "labels": {"x": "y"},
    },
}


def case(path: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": path,
        "status": "passed",
        "result": {"path": path},
        "error_type": None,
        "message": None,
        "line": None,
        "cause": "completed",
        **changes,
    }


class Daemon:
    """The needed part of a client: it answers each submission with a case per path."""

    def __init__(self) -> None:
        self.submitted: list[dict[str, Any]] = []
        self.cancelled: list[str] = []
        self._lock = threading.Lock()
        self.refuses = 0

    def submit(self, document: dict[str, Any], *, wait_s: float, attempt_id: str) -> dict[str, Any]:
        with self._lock:
            if self.refuses:
                self.refuses -= 1
                raise NotReady("not_ready", "the engine hasn't answered yet", status=503, retryable=True)
            self.submitted.append(document)
        together = document["payload"].get("paths", ())
        cases = [
            case(path, status="error", cause="timeout", result=None, message="ran out of time")
            if any("ends" in one for one in together) or "ends" in path
            else case(path)
            for path in (*together, *document["payload"].get("sample_paths", ()))
        ]
        report = {"runtime_results": {"cases": cases}, "findings": []}
        return {
            "id": attempt_id,
            "state": "finished",
            "verdict": "validated",
            "report": report,
            "error": None,
        }

    def cancel(self, attempt_id: str) -> None:
        self.cancelled.append(attempt_id)


def results(daemon: Daemon, found: Iterable[FoundFile], entry: dict[str, Any] = ENTRY) -> list[PathResult]:
    return [one for some in applied(daemon, entry, found) for one in some]  # type: ignore[arg-type]


def test_results_come_in_the_order_of_the_paths_from_attempts_of_a_thousand() -> None:
    daemon, paths = Daemon(), [f"/p/{number}" for number in range(2 * MAX_APPLIED_PATHS + 5)]

    found = results(daemon, map(FoundFile, paths))

    assert [one.path for one in found] == paths
    assert sorted(len(each["payload"]["paths"]) for each in daemon.submitted) == [5, 1000, 1000]
    assert daemon.submitted[0]["labels"] == {"applied": "quarter/3"}
    assert set(daemon.submitted[0]["payload"]) == {"code", "paths"}


def test_paths_of_an_ended_process_run_again_each_in_its_own() -> None:
    daemon = Daemon()

    found = results(daemon, [FoundFile("/a"), FoundFile("/ends"), FoundFile("/b")])

    assert [(one.path, one.code) for one in found] == [("/a", None), ("/ends", "timeout"), ("/b", None)]
    assert daemon.submitted[1]["payload"]["sample_paths"] == ["/a", "/ends", "/b"]


def test_path_that_cannot_be_submitted_keeps_its_place() -> None:
    found = results(Daemon(), [FoundFile("/a"), FoundFile("/\udce9", "path.not_utf8", "no"), FoundFile("/b")])

    assert [one.code for one in found] == [None, "path.not_utf8", None]


def test_daemon_that_is_not_ready_is_asked_again(monkeypatch) -> None:
    monkeypatch.setattr("assayd_client.cli.submitting.LOOK_AGAIN_S", 0)
    daemon = Daemon()
    daemon.refuses = 2

    assert len(results(daemon, [FoundFile("/a")])) == 1


def test_entry_that_the_policy_refuses_now_ends_the_run() -> None:
    class Refusing(Daemon):
        def submit(self, document: dict[str, Any], *, wait_s: float, attempt_id: str) -> dict[str, Any]:
            report = {"runtime_results": None, "findings": [{"message": "re isn't allowed."}]}
            return {"id": "A", "state": "finished", "verdict": "failed", "report": report, "error": None}

    with pytest.raises(RequestError, match="refuses quarter@3 now: re isn't allowed"):
        results(Refusing(), [FoundFile("/a")])


def test_entry_of_another_kind_is_refused() -> None:
    with pytest.raises(RequestError, match="quarter@3 is of the kind code, not an extractor"):
        results(Daemon(), [FoundFile("/a")], {**ENTRY, "kind": "code"})


def test_early_end_cancels_what_runs() -> None:
    class Waiting(Daemon):
        started, ended = threading.Event(), threading.Event()

        def submit(self, document: dict[str, Any], *, wait_s: float, attempt_id: str) -> dict[str, Any]:
            if document["payload"]["paths"][0] != "/0":
                self.started.set()
                assert self.ended.wait(10)
            return super().submit(document, wait_s=wait_s, attempt_id=attempt_id)

        def cancel(self, attempt_id: str) -> None:
            super().cancel(attempt_id)
            self.ended.set()

    daemon = Waiting()
    run = applied(daemon, ENTRY, (FoundFile(f"/{number}") for number in range(3000)), at_once=2)  # type: ignore[arg-type]
    next(run)
    assert daemon.started.wait(10)
    run.close()

    assert daemon.cancelled


@pytest.mark.parametrize(
    "one",
    [
        PathResult(path="/a", result={"x": 1}),
        PathResult(path="/caf\udce9", code="path.not_utf8", message="no"),
        PathResult(path="/a\nb", code="ValueError", message="bad", line=3),
    ],
)
def test_line_reads_back_as_it_was(one: PathResult) -> None:
    assert parse_path_result(one.document("quarter@3")) == one
