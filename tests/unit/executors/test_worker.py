"""What an executor keeps for the daemon: spans and the contents of bundles."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack

import pytest

from assayd.executors.worker import BundleContents, ExecutorParts, ExecutorWorker, Link, RecordedSpan
from assayd.ports.tracing import Attribute, Span
from assayd.store.unsynced import deserialize_files


class Exported:
    """A span of the daemon that keeps its children."""

    context = None

    def __init__(self, name: str = "attempt", ago_s: float = 0.0, **attributes: Attribute) -> None:
        self.name, self.ago_s, self.attributes = name, ago_s, attributes
        self.children: list[Exported] = []
        self.error: str | None = None
        self.ended_ago_s = -1.0

    def begin_child(self, name: str, ago_s: float = 0.0, /, **attributes: Attribute) -> Span:
        self.children.append(Exported(name, ago_s, **attributes))
        return self.children[-1]

    def add_finished_child(
        self, name: str, took_s: float | None = None, *, ended_ago_s: float = 0.0, **attributes: Attribute
    ) -> None:
        raise AssertionError("only begun spans are expected")

    def end(self, error: str | None = None, ago_s: float = 0.0, /, **attributes: Attribute) -> None:
        self.error, self.ended_ago_s = error, ago_s


def test_recorded_spans_are_replayed_with_their_times_and_children() -> None:
    recorded, exported = RecordedSpan(), Exported()
    run = recorded.begin_child("run", warm=True)
    run.add_finished_child("unit", 0.25, index=0)
    run.end("engine.slow")
    recorded.begin_child("report")  # It never ends, so it isn't exported.

    recorded.replay(exported)

    (span,) = exported.children
    assert (span.name, span.attributes, span.error) == ("run", {"warm": True}, "engine.slow")
    assert span.ago_s >= span.ended_ago_s >= 0
    (unit,) = span.children
    assert (unit.name, unit.attributes) == ("unit", {"index": 0})
    assert unit.ago_s <= span.ago_s


def test_contents_are_kept_as_the_database_stores_them() -> None:
    kept = BundleContents()

    kept.keep("a/b/c", {"stdout.log": b"out", "files/x": b""})

    assert deserialize_files(kept.pop("a/b/c")) == {"stdout.log": b"out", "files/x": b""}


async def build_nothing(worker: ExecutorWorker, start: object, stack: AsyncExitStack) -> ExecutorParts:
    raise AssertionError("no executor is started")


async def test_late_answer_to_a_question_that_was_given_up_answers_no_later_question() -> None:
    asked: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
    daemon = Link({"ask": lambda number, name, *_: asked.put_nowait((number, name))}, lambda: None)
    worker = ExecutorWorker(build_nothing)
    worker._on_stop()  # It must not end this process together with its connection.
    worker._events["a"] = []
    ours, theirs = socket.socketpair()
    for link, stream in ((daemon, ours), (worker._link, theirs)):
        stream.setblocking(False)
        await link.open(stream)

    first = asyncio.create_task(worker._ask("image", "a"))
    number, _ = await asked.get()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(worker._ask("attachments", "a"))
    later, _ = await asked.get()
    daemon.send("answer", number, None, ("image.unusable", "it fails its samples", False), True)
    daemon.send("answer", later, {"parent.json": b"{}"}, None, False)

    assert await second == {"parent.json": b"{}"}
    daemon.close()
    worker._link.close()
