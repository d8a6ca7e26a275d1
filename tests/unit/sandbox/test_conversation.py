"""The daemon's side of a conversation, with well-behaved and faulty runners."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest

from assayd.aio import Deadline
from assayd.guest.frames import Header, encode_frame
from assayd.model.run import Limits, Program, ResourceUsage, RunEndReason, RunSpec, Unit, UnitEndReason
from assayd.sandbox.channel import RunnerChannel
from assayd.sandbox.conversation import MIN_KEPT_BYTES, Conversation
from support.guests.scripted_runner import BYE, Reply, ScriptedDuplex, good_runner, good_unit, unit_end

LIMITS = Limits(timeout_s=5, unit_timeout_s=1, memory_bytes=2**20, max_processes=1, output_kept_bytes=64)
SPEC = RunSpec(
    image="python",
    limits=LIMITS,
    units=tuple(
        Unit(name=name, program=Program.CALL, arguments={"n": name}, deadline_s=1) for name in ("a", "b")
    ),
)


STARTED = encode_frame({"type": "started", "unit": 0, "starved_s": 0.0})


def clock(index: int, **changes: object) -> bytes:
    spent = {"wall_s": 3.5, "cpu_s": 0.4, "starved_s": 0.0, **changes}
    return encode_frame({"type": "clock", "unit": index, **spent})


async def hold(reply: Reply, spec: RunSpec = SPEC, *, timeout_s: float = 5.0):
    duplex = ScriptedDuplex(reply)
    conversation = Conversation(RunnerChannel(duplex), spec)
    await conversation.begin()
    end, detail = await conversation.run(Deadline(timeout_s))
    return conversation, duplex, end, detail


async def test_units_are_sent_in_order_and_the_run_finishes():
    conversation, duplex, end, _ = await hold(good_runner)
    assert end is RunEndReason.FINISHED
    assert [header["type"] for header in duplex.sent] == ["begin", "unit", "unit", "finish"]
    assert [(u.name, u.results, u.end) for u in conversation.units] == [
        ("a", (b"{}",), UnitEndReason.EXITED),
        ("b", (b"{}",), UnitEndReason.EXITED),
    ]
    assert conversation.peak_memory_bytes == 12_000_000


async def test_memory_that_the_kernel_does_not_count_is_not_taken_for_none_used():
    uncounted = encode_frame({"type": "bye", "outputs_dropped": [], "peak_memory_bytes": 0})

    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        return [uncounted] if header["type"] == "finish" else good_runner(header, body)

    conversation, _, end, _ = await hold(reply)
    assert (end, conversation.peak_memory_bytes) == (RunEndReason.FINISHED, None)


async def test_the_second_unit_is_not_sent_before_the_first_is_dead_where_it_depends_on_it():
    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        return [STARTED] if header["type"] == "unit" else []

    conversation, duplex, end, _ = await hold(reply, replace(SPEC, stop_on_failure=True), timeout_s=0.05)
    assert end is RunEndReason.DEADLINE
    assert [header.get("unit") for header in duplex.sent] == [None, 0]
    assert conversation.units[0].end is UnitEndReason.INTERRUPTED


async def test_time_that_units_waited_for_a_processor_is_not_counted():
    """Of three seconds of waiting, the deadline excludes at most twice its own length."""

    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        return [STARTED, clock(0, starved_s=3.0)] if header["type"] == "unit" else []

    loop = asyncio.get_running_loop()
    began = loop.time()
    conversation, _, end, _ = await hold(reply, timeout_s=0.05)
    assert end is RunEndReason.DEADLINE
    assert loop.time() - began > 0.14
    assert conversation.units[0].usage == ResourceUsage(wall_s=3.5, cpu_s=0.4, starved_s=3.0)


async def test_partial_output_of_an_interrupted_unit_is_kept():
    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        if header.get("unit") != 0:
            return []
        return [encode_frame({"type": "output", "unit": 0, "stream": "stdout", "part": "head"}, b"so far")]

    conversation, _, _, _ = await hold(reply, timeout_s=0.05)
    assert conversation.units[0].stdout.head == b"so far"


async def test_a_cancelled_deadline_ends_the_run_as_cancelled():
    duplex = ScriptedDuplex(lambda header, body: [])
    conversation = Conversation(RunnerChannel(duplex), SPEC)
    deadline = Deadline(60)
    asyncio.get_running_loop().call_soon(deadline.cancel)
    assert (await conversation.run(deadline))[0] is RunEndReason.CANCELLED


async def test_runner_that_gives_up_at_the_end_is_told_like_one_that_does_in_the_middle():
    fault = encode_frame({"type": "fault", "message": "FrameError: frame too large to send"})

    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        return [fault] if header["type"] == "finish" else good_runner(header, body)

    _, _, end, detail = await hold(reply)
    assert (end, detail) == (RunEndReason.PROTOCOL, "the runner gave up: FrameError: frame too large to send")


async def test_child_that_could_not_be_confined_is_trouble_of_the_engine_and_not_of_the_code():
    gave_up = encode_frame({"type": "unconfined", "message": "OSError: [Errno 524] prctl"})
    conversation, _, end, detail = await hold(lambda header, body: [gave_up] if "unit" in header else [])
    assert (end, detail) == (RunEndReason.ENGINE, "engine.unconfined")
    assert [unit.end for unit in conversation.units] == [UnitEndReason.INTERRUPTED]


async def test_the_end_of_the_stream_is_a_lost_run():
    _, _, end, _ = await hold(lambda header, body: [b""] if header["type"] == "unit" else [])
    assert end is RunEndReason.LOST


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"\xff" * 64, "over the cap"),
        (encode_frame({"type": "bye", "outputs_dropped": [], "peak_memory_bytes": 1}), "unit"),
        (encode_frame({"type": "started", "unit": 1}), "another unit"),
        (encode_frame({"type": "started", "unit": True}), "not an integer"),
        (encode_frame({"type": "dance", "unit": 0}), "unexpected"),
        (unit_end(0, wait_status=-1), "wait_status"),
        (unit_end(0, end="interrupted"), "only the daemon"),
        (unit_end(0, end="well"), "unknown"),
        (unit_end(0, wall_s="x"), "wall_s"),
        (unit_end(0, starved_s=-1), "starved_s"),
        (clock(0, starved_s=float("1e300")), "starved_s"),
        (encode_frame({"type": "started", "unit": 0}), "starved_s"),
        (unit_end(0, work_full=1), "work_full"),
        (unit_end(0, stdout_bytes=10**20), "stdout_bytes"),
        (encode_frame({"type": "result", "unit": 0, "index": 1, "last": True}), "out of order"),
        (encode_frame({"type": "output", "unit": 0, "stream": "disk", "part": "head"}), "unknown stream"),
        (
            encode_frame({"type": "output", "unit": 0, "stream": "stdout", "part": "head"}, b"x" * 33),
            "more output",
        ),
        (
            encode_frame({"type": "result", "unit": 0, "index": 0, "last": False}) + unit_end(0),
            "without its end",
        ),
        (encode_frame({"type": "fault", "message": "no such program"}), "gave up"),
    ],
)
async def test_a_runner_that_breaks_the_protocol_ends_the_run(answer: bytes, complaint: str):
    _, _, end, detail = await hold(lambda header, body: [answer] if header["type"] == "unit" else [])
    assert end is RunEndReason.PROTOCOL
    assert complaint in detail


async def test_a_result_over_its_cap_ends_the_run():
    spec = replace(SPEC, limits=replace(LIMITS, unit_result_bytes=10))

    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        return good_unit(0, b"x" * 11) if header["type"] == "unit" else []

    _, _, end, detail = await hold(reply, spec)
    assert (end, detail) == (RunEndReason.PROTOCOL, "a result larger than its cap")


async def test_results_over_the_attempt_cap_are_dropped_with_their_unit_at_fault():
    spec = replace(SPEC, limits=replace(LIMITS, attempt_result_bytes=3))
    conversation, _, end, _ = await hold(good_runner, spec)
    assert end is RunEndReason.FINISHED
    assert [u.end for u in conversation.units] == [UnitEndReason.EXITED, UnitEndReason.RESULT_LIMIT]
    assert conversation.units[1].results == ()


async def test_declared_outputs_are_put_together():
    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        if header["type"] != "finish":
            return good_runner(header, body)
        part: Header = {"type": "collected", "path": "out.csv", "truncated": False}
        return [
            encode_frame(part | {"append": False}, b"a,"),
            encode_frame(part | {"append": True}, b"b"),
            BYE,
        ]

    conversation, _, _, _ = await hold(reply)
    assert [(o.name, o.content) for o in conversation.collected()] == [("out.csv", b"a,b")]


async def test_more_outputs_than_the_cap_end_the_run():
    spec = replace(SPEC, limits=replace(LIMITS, outputs_bytes=3))

    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        if header["type"] != "finish":
            return good_runner(header, body)
        return [
            encode_frame({"type": "collected", "path": "o", "append": False, "truncated": False}, b"four"),
            BYE,
        ]

    _, _, end, _ = await hold(reply, spec)
    assert end is RunEndReason.PROTOCOL


async def test_large_arguments_arrive_in_parts_before_their_unit():
    text = "x" * (3 * 2**20)
    unit = Unit(name="a", program=Program.CALL, arguments={"source": text}, deadline_s=1)
    received: list[bytes] = []

    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        if header["type"] in ("arguments", "unit"):
            received.append(body)
        return good_runner(header, body)

    _, _, end, _ = await hold(reply, replace(SPEC, units=(unit,)))
    assert end is RunEndReason.FINISHED
    assert b"".join(received) == b'{"source":"' + text.encode() + b'"}'


async def test_many_units_together_keep_little_more_output_than_one_may():
    names = [f"u{n}" for n in range(20)]
    kept = 8 * MIN_KEPT_BYTES
    units = tuple(replace(SPEC.units[0], name=name) for name in names)
    spec = replace(SPEC, units=units, limits=replace(LIMITS, output_kept_bytes=kept))

    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        if header["type"] != "unit":
            return [BYE] if header["type"] == "finish" else []
        index = int(str(header["unit"]))
        output = {"type": "output", "unit": index, "stream": "stdout"}
        parts = [
            encode_frame(output | {"part": part}, part.encode() * (kept // 8)) for part in ("head", "tail")
        ]
        return [*parts, *good_unit(index)[1:-1], unit_end(index, stdout_bytes=10**6)]

    conversation, _, end, _ = await hold(reply, spec)
    sizes = [len(u.stdout.head) + len(u.stdout.tail) for u in conversation.units]
    assert end is RunEndReason.FINISHED
    assert (sizes[0], sizes[-1]) == (kept, MIN_KEPT_BYTES)
    assert sum(sizes) <= kept + len(names) * MIN_KEPT_BYTES
    last = conversation.units[-1].stdout
    assert (last.head[:4], last.tail[-4:], last.total_bytes) == (b"head", b"tail", 10**6)


@pytest.mark.parametrize("status", [0x7F, 0x137F, 0xFFFF])
async def test_a_wait_status_of_no_end_breaks_the_protocol(status: int):
    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        return [unit_end(0, wait_status=status)] if header["type"] == "unit" else []

    _, _, end, detail = await hold(reply)
    assert (end, detail) == (RunEndReason.PROTOCOL, "unit_end.wait_status is not that of an end")


async def test_a_unit_that_fails_is_the_last_where_the_spec_says_so():
    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        if header["type"] == "unit":
            return [STARTED, unit_end(0, wait_status=256)]
        return [BYE] if header["type"] == "finish" else []

    conversation, duplex, end, _ = await hold(reply, replace(SPEC, stop_on_failure=True))
    assert end is RunEndReason.FINISHED
    assert [header["type"] for header in duplex.sent] == ["begin", "unit", "finish"]
    assert len(conversation.units) == 1


async def test_a_unit_brings_its_files_and_leaves_its_output_for_the_next():
    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        if header["type"] == "unit":
            index = int(str(header["unit"]))
            out = encode_frame({"type": "output", "unit": index, "stream": "stdout", "part": "head"}, b"said")
            return [out, *good_unit(index)[:-1], unit_end(index, stdout_bytes=4)]
        return [BYE] if header["type"] == "finish" else []

    units = tuple(
        replace(unit, files={f"scripts/{unit.name}": b"text"}, log=f"logs/{unit.name}") for unit in SPEC.units
    )
    _, duplex, _, _ = await hold(reply, replace(SPEC, units=units, database=b"db", stop_on_failure=True))
    assert [header.get("path", header["type"]) for header in duplex.sent] == [
        "begin", "database", "scripts/a", "unit", "logs/a.out", "logs/a.err", "scripts/b", "unit",
        "logs/b.out", "logs/b.err", "finish",
    ]  # fmt: skip


CHECKED = replace(
    SPEC, units=(SPEC.units[0], replace(SPEC.units[1], arguments={"again": 1}, without_check={"n": "b"}))
)
CHECK = {"type": "event", "kind": "check", "detail": "", "allowed": True, "enforced": False}


async def test_a_unit_that_failed_in_its_check_runs_again_without_it_and_that_run_counts():
    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        if header["type"] == "unit" and header["unit"] == 1 and b"again" in body:
            return [encode_frame(CHECK | {"unit": 1}), unit_end(1, wait_status=9, results=0)]
        return good_runner(header, body)

    conversation, duplex, end, _ = await hold(reply, CHECKED)
    assert end is RunEndReason.FINISHED
    assert [header.get("unit") for header in duplex.sent] == [None, 0, 1, 1, None]
    assert [(unit.name, unit.outcome.completed) for unit in conversation.units] == [("a", True), ("b", True)]


async def test_a_unit_that_failed_before_its_check_does_not_run_again():
    def reply(header: Header, body: bytes) -> Iterable[bytes]:
        bad = header["type"] == "unit" and header["unit"] == 1
        return [unit_end(1, wait_status=256, results=0)] if bad else good_runner(header, body)

    conversation, duplex, end, _ = await hold(reply, CHECKED)
    assert end is RunEndReason.FINISHED
    assert [header.get("unit") for header in duplex.sent] == [None, 0, 1, None]
    assert not conversation.units[1].outcome.completed
