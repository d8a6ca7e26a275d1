"""A batch's page shows why its items fail."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from assayd.errors import RequestError
from assayd_client import NotFound
from assayd_client.cli.evaluate import TASK_LABEL
from assayd_client.requests import ClientRequest
from assayd_console.pages.batches import (
    COMPARED_ITEMS,
    FailedItems,
    _explain_groups,
    _group_failures,
    _load_tasks,
    run_again,
    show_batch,
)


def item(line: int, *rules: str, cause: str | None = None, verdict: str = "failed") -> dict[str, object]:
    return {
        "line": line,
        "attempt_id": f"A{line}",
        "verdict": verdict,
        "rules": list(rules),
        "cause": cause,
    }


class Daemon:
    """A daemon whose attempts have labels and findings."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, request) -> dict[str, object]:
        attempt_id = request.path.rpartition("/")[2]
        self.asked.append(attempt_id)
        findings = [
            {"severity": "warning", "message": "odd"},
            {"severity": "error", "message": f"{attempt_id} is wrong"},
        ]
        return {"labels": {"who": "polar", "line": attempt_id}, "report": {"findings": findings}}


def test_items_are_told_by_rule_and_cause_the_most_frequent_first() -> None:
    found = _group_failures(
        [item(1, "a"), item(2, "b", cause="timeout"), item(3, "a"), item(4, verdict="validated"), item(5)]
    )
    assert [(each.rules, each.cause, len(each.items)) for each in found] == [
        (("a",), "wasn't run", 2),
        (("b",), "timeout", 1),
        ((), "wasn't run", 1),
    ]


async def test_failures_say_what_one_was_told_and_what_all_that_were_looked_at_share() -> None:
    daemon = Daemon()
    group = FailedItems(rules=("a",), cause="timeout", items=[item(line) for line in range(1, 23)])
    [told] = await _explain_groups(daemon, [group])
    assert told.message == "A1 is wrong"
    assert told.labels == ["who=polar"]
    assert len(daemon.asked) == COMPARED_ITEMS
    assert (daemon.asked[0], daemon.asked[-1]) == ("A1", "A22")


class Pages:
    """A daemon that returns a batch's attempts in pages."""

    def __init__(self, *pages: list[dict[str, object]]) -> None:
        self.pages = pages
        self.asked = 0

    async def ask(self, request) -> dict[str, object]:
        self.asked += 1
        more = self.asked < len(self.pages)
        return {"attempts": self.pages[self.asked - 1], "next_cursor": str(self.asked) if more else None}


def attempt(verdict: str | None, task: str | None = None) -> dict[str, object]:
    return {"verdict": verdict, "labels": {} if task is None else {TASK_LABEL: task}}


async def test_attempts_of_an_evaluation_are_counted_by_task_the_hardest_first() -> None:
    daemon = Pages(
        [attempt("validated", "easy"), attempt("validated", "easy"), attempt("validated", "hard")],
        [attempt("failed", "hard"), attempt("error", "hard"), attempt(None, "hard")],
    )

    rows = await _load_tasks(daemon, {"id": "B"})  # type: ignore[arg-type]  # it answers as one

    assert rows == [
        {"task": "hard", "samples": 4, "passed": 1, "lost": 2},
        {"task": "easy", "samples": 2, "passed": 2, "lost": 0},
    ]


async def test_batch_of_other_attempts_has_no_tasks_and_is_read_once() -> None:
    daemon = Pages([attempt("validated")], [attempt("validated")])

    assert await _load_tasks(daemon, {"id": "B"}) == []  # type: ignore[arg-type]  # it answers as one
    assert daemon.asked == 1


class OwnedDaemon:
    """A daemon with a user's finished batch, which records the names of submitted batches."""

    def __init__(self, uid: int) -> None:
        self.batch = {
            "id": "01B",
            "name": "night",
            "peer": {"uid": uid},
            "created_at": "2026-05-04T10:20:30.000000Z",
            "finished_at": "2026-05-04T10:20:31.000000Z",
            "cancelled_at": None,
            "state": "finished",
            "complete": True,
            "dedupe": False,
            "concurrency": 4,
            "counts": {
                "total": 2, "waiting": 0, "running": 0, "validated": 1,
                "failed": 1, "error": 0, "cancelled": 0, "malformed": 0,
            },
        }  # fmt: skip
        self.sent: list[str] = []

    async def ask(self, request: ClientRequest[Any]) -> dict[str, Any]:
        if request.method == "POST":
            self.sent.append(str(dict(request.query)["name"]))
        return self.batch


def request_to(daemon: OwnedDaemon) -> Any:
    state = SimpleNamespace(daemon=daemon)
    return SimpleNamespace(
        app=SimpleNamespace(state=state), path_params={"name": "night"}, query_params={}, headers={}
    )


async def test_failed_lines_of_another_users_batch_are_not_run_again() -> None:
    daemon = OwnedDaemon(os.geteuid() + 1)
    with pytest.raises(RequestError, match="belongs to another user"):
        await run_again(request_to(daemon))
    assert daemon.sent == []


async def test_failed_lines_that_are_run_again_twice_at_once_become_two_batches() -> None:
    daemon = OwnedDaemon(os.geteuid())
    for _ in range(2):
        await run_again(request_to(daemon))
    first, second = daemon.sent
    assert first != second


class ForgetfulDaemon(OwnedDaemon):
    """Has three failed lines; the bundle of one is gone, and the record of another."""

    def __init__(self) -> None:
        super().__init__(os.geteuid())
        self.lines_sent: list[bytes] = []

    async def ask(self, request: ClientRequest[Any]) -> dict[str, Any]:
        if request.method == "POST":
            self.lines_sent = [line async for line in cast("Any", request.content)]
        return await super().ask(request)

    async def lines(self, request: ClientRequest[Any]) -> AsyncIterator[dict[str, Any]]:
        for number in (1, 2, 3):
            attempt = {"id": f"A{number}", "artifacts": [{"name": "submission_1.json", "bytes": 2}]}
            yield {**item(number), "error": None, "attempt": None if number == 3 else attempt}
        yield {**item(4), "error": {"code": "malformed"}, "attempt": None}

    async def request_bytes(self, request: ClientRequest[Any]) -> bytes:
        if "A1" in request.path:
            raise NotFound("artifact.missing", "the bundle doesn't exist", status=404)
        return b"{}"


async def test_failed_lines_without_a_stored_submission_are_named_and_the_others_run() -> None:
    daemon = ForgetfulDaemon()
    response = await run_again(request_to(daemon))
    assert daemon.lines_sent == [b"{}\n"]
    assert response.headers["location"].endswith("?missing=1,3")

    request = request_to(daemon)
    request.query_params = {"missing": "1,3"}
    assert b"removed: lines 1, 3 of the earlier batch" in (await show_batch(request)).body
    request.query_params = {"missing": "all, call 555"}
    assert b"earlier batch" not in (await show_batch(request)).body


@pytest.mark.parametrize(("others", "shown"), [(0, True), (1, False)])
async def test_button_that_runs_failed_lines_again_is_only_on_own_batches(others: int, shown: bool) -> None:
    response = await show_batch(request_to(OwnedDaemon(os.geteuid() + others)))
    assert (b"Run failed lines again" in response.body) is shown
