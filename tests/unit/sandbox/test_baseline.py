"""The baseline of an image: the memory use of its second container, with its preloads."""

from __future__ import annotations

import itertools

import pytest

from assayd.errors import ConfigError
from assayd.guest.frames import FrameDecoder, encode_frame
from assayd.sandbox.baseline import measure_baseline_mb
from support.engines.warm_pool import IMAGE
from support.fakes.engine import FakeEngine, Peer

MIB = 2**20


def guest(taken: list[int], failed: tuple[str, ...] = ()):
    """Return guests that report these memory uses, one after the other."""
    sizes = itertools.chain(taken)

    async def answer(peer: Peer) -> None:
        decoder = FrameDecoder()
        while data := await peer.read():
            for header, _ in decoder.feed(data):
                if header["type"] == "hello":
                    ready = {"type": "ready", "protocol": 1, "python": "3.11.2", "cgroup": 1}
                    said = {"preload_failed": list(failed), "memory_bytes": next(sizes)}
                    await peer.write(encode_frame({**ready, **said}))

    return answer


@pytest.mark.parametrize(
    ("taken", "megabytes"), [([90 * MIB, 40 * MIB + 1], 57), ([9 * MIB, 4 * MIB], 32)], ids=["large", "small"]
)
async def test_baseline_is_what_the_second_container_takes_and_some_room(
    taken: list[int], megabytes: int
) -> None:
    engine = FakeEngine(guest(taken), images=[IMAGE])

    assert await measure_baseline_mb(engine, IMAGE, ("json",)) == megabytes
    assert engine.calls.count("remove") == engine.calls.count("create") == 2


async def test_module_that_cannot_be_preloaded_is_named() -> None:
    engine = FakeEngine(guest([MIB, MIB], ("numpy",)), images=[IMAGE])

    with pytest.raises(ConfigError) as raised:
        await measure_baseline_mb(engine, IMAGE, ("json", "numpy"))
    assert raised.value.code == "image.preload"
    assert "can't import numpy, which" in raised.value.message
