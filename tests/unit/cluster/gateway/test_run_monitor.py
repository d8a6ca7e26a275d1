from __future__ import annotations

import pytest

from assayd_cluster.gateway.execution import MAX_TAKEN_S, DispatchedAttempt, is_alive, is_stray

S = 1_000_000
NOW = 1000 * S
LISTED = {"a": frozenset({"x"}), "b": frozenset[str]()}


def dispatched(
    published_s: int | None, node: str | None = None, leased_s: int | None = None, *, over: bool = False
) -> DispatchedAttempt:
    return DispatchedAttempt(
        attempt_id="x",
        published_at=None if published_s is None else NOW - published_s * S,
        node=node,
        leased_at=None if leased_s is None else NOW - leased_s * S,
        over=over,
    )


@pytest.mark.parametrize(
    ("one", "alive", "stray"),
    [
        (dispatched(None), False, False),
        (dispatched(30), False, False),
        (dispatched(61), False, True),
        (dispatched(900, "a", 800), True, False),
        (dispatched(900, "a", 800, over=True), False, True),
        (dispatched(900, "b", 10), True, False),
        (dispatched(20, "b", 16), False, True),
        (dispatched(20, "gone", 19), False, True),
        (dispatched(10, "gone", 9), False, False),
        (dispatched(10, "a", 800, over=True), False, False),
    ],
    ids=[
        "not published",
        "with the broker",
        "with the broker for long",
        "listed by its node",
        "said to be lost, and published before that",
        "claimed just now",
        "no longer listed",
        "its node is gone",
        "its node is gone, but published just now",
        "lost, and published again",
    ],
)
def test_attempt_that_nobody_has_in_hand_is_published_again(
    one: DispatchedAttempt, alive: bool, stray: bool
) -> None:
    assert (is_alive(one, LISTED, NOW), is_stray(one, LISTED, NOW)) == (alive, stray)


@pytest.mark.parametrize(("published_s", "stray"), [(MAX_TAKEN_S - 1, False), (MAX_TAKEN_S + 1, True)])
def test_message_that_someone_took_and_nobody_claims_is_soon_published_again(
    published_s: float, stray: bool
) -> None:
    one = dispatched(int(published_s))
    assert is_stray(one, LISTED, NOW, unclaimed_s=MAX_TAKEN_S) is stray
    assert not is_stray(one, LISTED, NOW)
