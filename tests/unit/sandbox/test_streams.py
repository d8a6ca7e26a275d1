"""Streams of a conversation: the runner's messages, and the egress session's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from assayd.aio import Deadline
from assayd.guest.frames import MIN_WINDOW_COST, WINDOW, Header, encode_frame
from assayd.model.policy import ImportMode, ImportPolicy, NetworkMode, NetworkPolicy
from assayd.model.run import AccessProtocol, Limits, NetworkEvent, Program, RunEndReason, RunSpec, Unit
from assayd.ports.egress import EgressLimits, GuestStream
from assayd.sandbox.channel import RunnerChannel
from assayd.sandbox.conversation import Conversation
from support.guests.scripted_runner import BYE, ScriptedDuplex, good_unit

LIMITS = Limits(timeout_s=5, unit_timeout_s=1, memory_bytes=2**20, max_processes=1)
SPEC = RunSpec(
    image="python",
    limits=LIMITS,
    units=(Unit(name="a", program=Program.CALL, arguments={}, deadline_s=1),),
    network=NetworkPolicy(mode=NetworkMode.ALLOWLIST),
)
REFUSED = NetworkEvent(
    host="evil.test",
    port=443,
    via=AccessProtocol.TLS,
    allowed=False,
    rule="network.not_listed",
    reason="not listed",
)


class Way:
    """An egress session that serves with a function of the test."""

    def __init__(self, serve: Callable[[GuestStream], object], *events: NetworkEvent) -> None:
        self.limits = EgressLimits(connections=4)
        self.refused: list[int] = []
        self._serve = serve
        self._events = events

    async def serve(self, stream: GuestStream, unit: int) -> None:
        await self._serve(stream)  # type: ignore[misc]

    def record_limit_reached(self, unit: int) -> None:
        self.refused.append(unit)

    def events(self, unit: int) -> tuple[NetworkEvent, ...]:
        return self._events


async def echo(stream: GuestStream) -> None:
    while data := await stream.read():
        await stream.write(data)


def frame(kind: str, body: bytes = b"", stream: int = 0, **more: object) -> bytes:
    return encode_frame({"type": f"stream_{kind}", "unit": 0, "stream": stream, **more}, body)


class Talk:
    """A runner that sends these frames when a unit starts, and others when the daemon answers."""

    def __init__(
        self, *opening: bytes, then: Callable[[Header, bytes], Iterable[bytes]] | None = None
    ) -> None:
        self.sent: list[tuple[Header, bytes]] = []
        self._opening = opening
        self._then = then or (lambda header, body: [])

    def reply(self, header: Header, body: bytes) -> Iterable[bytes]:
        kind = str(header["type"])
        if kind == "unit":
            return self._opening
        if kind.startswith("stream_"):
            self.sent.append((header, body))
            return self._then(header, body)
        return [BYE] if kind == "finish" else []

    def bodies(self) -> bytes:
        return b"".join(body for header, body in self.sent if header["type"] == "stream_data")


async def hold(talk: Talk, way: Way, spec: RunSpec = SPEC, *, deadline: Deadline | None = None):
    conversation = Conversation(RunnerChannel(ScriptedDuplex(talk.reply)), spec, way)
    await conversation.begin()
    end, detail = await conversation.run(deadline or Deadline(60))
    return conversation, end, detail


def end_when(bodies: bytes) -> Callable[[Header, bytes], Iterable[bytes]]:
    """Return a reply that ends the unit once these bytes have arrived."""
    come = bytearray()

    def then(header: Header, body: bytes) -> Iterable[bytes]:
        come.extend(body)
        return good_unit(0)[1:] if bytes(come) == bodies and header["type"] == "stream_data" else []

    return then


async def test_begin_tells_the_caps_and_not_the_list() -> None:
    duplex = ScriptedDuplex(Talk(*good_unit(0)).reply)
    spec = replace(SPEC, network=replace(SPEC.network, hosts=frozenset({"secret.test"})))
    await Conversation(RunnerChannel(duplex), spec, Way(echo)).begin()

    assert duplex.sent[0]["network"] == {"mode": "allowlist", "streams": 32, "connections": 4}
    assert "secret" not in str(duplex.sent)


async def test_bytes_go_both_ways_on_streams_of_their_own() -> None:
    talk = Talk(
        frame("open"),
        frame("open", stream=1),
        frame("data", b"one"),
        frame("data", b"two", stream=1),
        then=end_when(b"onetwo"),
    )
    _, end, _ = await hold(talk, Way(echo))

    assert end is RunEndReason.FINISHED
    assert {(h["stream"], body) for h, body in talk.sent if h["type"] == "stream_data"} == {
        (0, b"one"),
        (1, b"two"),
    }


async def test_end_of_the_guests_side_is_read_as_the_end_and_ours_follows() -> None:
    def then(header: Header, body: bytes) -> Iterable[bytes]:
        return good_unit(0)[1:] if header["type"] == "stream_end" else []

    talk = Talk(frame("open"), frame("data", b"x"), frame("end"), then=then)
    _, end, _ = await hold(talk, Way(echo))

    assert end is RunEndReason.FINISHED
    assert [header["type"] for header, _ in talk.sent] == ["stream_data", "stream_end"]


async def test_no_more_is_sent_than_the_guest_has_given_credit_for() -> None:
    many = b"y" * (3 * WINDOW)

    async def flood(stream: GuestStream) -> None:
        await stream.write(many)

    sizes: list[int] = []

    def then(header: Header, body: bytes) -> Iterable[bytes]:
        sizes.append(len(body))
        if header["type"] == "stream_end":
            return good_unit(0)[1:]
        return [frame("credit", credit=WINDOW)] if sum(sizes) % WINDOW == 0 else []

    talk = Talk(frame("open"), then=then)
    _, end, _ = await hold(talk, Way(flood))

    assert (end, talk.bodies()) == (RunEndReason.FINISHED, many)


async def test_without_credit_the_way_out_waits_and_the_conversation_goes_on() -> None:
    async def flood(stream: GuestStream) -> None:
        await stream.write(b"y" * (WINDOW + 1))
        raise AssertionError("more was written than there is credit for")

    def then(header: Header, body: bytes) -> Iterable[bytes]:
        return good_unit(0)[1:] if len(talk.bodies()) == WINDOW else []

    talk = Talk(frame("open"), then=then)
    conversation, end, _ = await hold(talk, Way(flood))

    assert (end, len(conversation.units)) == (RunEndReason.FINISHED, 1)


async def test_credit_is_given_for_what_was_taken_with_small_pieces_at_their_cost() -> None:
    pieces = WINDOW // 4 // MIN_WINDOW_COST

    def then(header: Header, body: bytes) -> Iterable[bytes]:
        return good_unit(0)[1:] if header["type"] == "stream_credit" else []

    talk = Talk(frame("open"), *[frame("data", b"x")] * pieces, then=then)

    async def swallow(stream: GuestStream) -> None:
        while await stream.read():
            pass

    await hold(talk, Way(swallow))

    assert [header["credit"] for header, _ in talk.sent if header["type"] == "stream_credit"] == [WINDOW // 4]


async def test_end_of_a_unit_ends_its_streams_whatever_they_wait_for() -> None:
    ended = asyncio.Event()

    async def wait(stream: GuestStream) -> None:
        try:
            await stream.write(b"begun")
            await asyncio.Event().wait()
        finally:
            ended.set()

    _, end, _ = await hold(Talk(frame("open"), then=end_when(b"begun")), Way(wait))

    assert (end, ended.is_set()) == (RunEndReason.FINISHED, True)


async def test_end_of_the_attempt_ends_its_streams_and_keeps_their_record() -> None:
    ended = asyncio.Event()

    async def wait(stream: GuestStream) -> None:
        asyncio.get_running_loop().call_soon(deadline.cancel)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    deadline = Deadline(60)
    conversation, end, _ = await hold(Talk(frame("open")), Way(wait, REFUSED), deadline=deadline)

    assert (end, ended.is_set()) == (RunEndReason.CANCELLED, True)
    assert conversation.units[0].network == (REFUSED,)


async def test_guest_that_is_gone_is_read_as_the_end_and_cannot_be_written_to() -> None:
    seen: list[object] = []

    async def serve(stream: GuestStream) -> None:
        seen.append(await stream.read())
        try:
            await stream.write(b"x")
        except ConnectionResetError:
            seen.append("gone")

    await hold(Talk(frame("open"), frame("reset"), frame("data", b"late"), *good_unit(0)), Way(serve))

    assert seen in ([b"", "gone"], [])  # the unit may end before the stream is served


async def test_frames_for_a_stream_that_was_are_left_alone() -> None:
    async def leave(stream: GuestStream) -> None:
        await stream.reset()

    def then(header: Header, body: bytes) -> Iterable[bytes]:
        return [frame("data", b"late"), frame("end"), frame("credit", credit=1), *good_unit(0)[1:]]

    _, end, _ = await hold(Talk(frame("open"), then=then), Way(leave))

    assert end is RunEndReason.FINISHED


@pytest.mark.parametrize(
    ("frames", "complaint"),
    [
        ([frame("open", stream=1)], "out of order"),
        ([frame("open"), frame("open")], "out of order"),
        ([frame("open", stream=n) for n in range(5)], "out of order"),
        ([frame("data", b"x")], "never opened"),
        ([frame("open"), frame("data", b"x", stream=7)], "never opened"),
        ([frame("open"), *[frame("data", b"x" * 60_000)] * 3], "more than it has credit for"),
        (
            [frame("open"), *[frame("data", b"x")] * (WINDOW // MIN_WINDOW_COST + 1)],
            "more than it has credit for",
        ),
        ([frame("open"), frame("credit", credit=1)], "credit for more than was sent"),
        ([frame("open"), frame("credit", credit=-1)], "not an integer"),
        ([frame("open"), frame("end"), frame("data", b"x")], "after its end"),
        ([frame("open"), frame("dance")], "unexpected frame"),
        ([frame("open", stream="0")], "not an integer"),
    ],
)
async def test_streams_out_of_form_end_the_run(frames: list[bytes], complaint: str) -> None:
    async def idle(stream: GuestStream) -> None:
        await asyncio.Event().wait()

    _, end, detail = await hold(Talk(*frames), Way(idle))

    assert end is RunEndReason.PROTOCOL
    assert complaint in detail


async def test_streams_where_the_network_is_blocked_end_the_run() -> None:
    talk = Talk(frame("open"))
    conversation = Conversation(RunnerChannel(ScriptedDuplex(talk.reply)), SPEC)

    end, detail = await conversation.run(Deadline(60))

    assert (end, detail) == (RunEndReason.PROTOCOL, "unexpected frame 'stream_open'")


async def test_connection_over_the_cap_is_told() -> None:
    way = Way(echo)
    limit = encode_frame({"type": "stream_limit", "unit": 0})
    await hold(Talk(limit, *good_unit(0)), way)

    assert way.refused == [0]


@pytest.mark.parametrize(("mode", "enforced"), [(ImportMode.ENFORCE, True), (ImportMode.OBSERVE, False)])
async def test_refused_access_is_an_event_of_the_policy_too(mode: ImportMode, enforced: bool) -> None:
    spec = replace(SPEC, imports=ImportPolicy(mode=mode))
    served = replace(REFUSED, allowed=True, rule="network.listed")
    conversation, _, _ = await hold(Talk(*good_unit(0)), Way(echo, REFUSED, served, REFUSED), spec)

    (unit,) = conversation.units
    assert unit.network == (REFUSED, served, REFUSED)
    (event,) = unit.events
    assert (event.kind, event.detail, event.allowed, event.enforced, event.rule) == (
        "network",
        "evil.test:443",
        False,
        enforced,
        "network.not_listed",
    )


@pytest.mark.parametrize(
    ("mode", "rule"),
    [(NetworkMode.BLOCKED, "network.blocked"), (NetworkMode.ALLOWLIST, "network.not_proxied")],
)
async def test_access_that_the_hook_saw_names_the_rule_of_the_mode(mode: NetworkMode, rule: str) -> None:
    spec = replace(SPEC, network=NetworkPolicy(mode=mode))
    event: Header = {"type": "event", "unit": 0, "kind": "network", "detail": "a.test:80", "line": 1}
    seen = encode_frame(event | {"allowed": False, "enforced": True})
    conversation, _, _ = await hold(Talk(seen, *good_unit(0)), Way(echo), spec)

    assert [(event.rule, event.line) for event in conversation.units[0].events] == [(rule, 1)]


async def test_defect_in_one_stream_ends_that_stream_alone() -> None:
    async def serve(stream: GuestStream) -> None:
        if await stream.read() == b"bad":
            raise RuntimeError("Cannot change state of expiring Timeout")
        await stream.write(b"good")

    talk = Talk(
        frame("open"),
        frame("open", stream=1),
        frame("data", b"bad"),
        frame("data", b"fine", stream=1),
        then=end_when(b"good"),
    )
    _, end, _ = await hold(talk, Way(serve))

    assert end is RunEndReason.FINISHED
    assert ("stream_reset", 0) in [(header["type"], header["stream"]) for header, _ in talk.sent]


async def test_credit_for_nothing_is_a_fault() -> None:
    _, end, _ = await hold(Talk(frame("open"), frame("credit", credit=0)), Way(echo))

    assert end is RunEndReason.PROTOCOL
