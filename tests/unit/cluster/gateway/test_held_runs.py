"""A gateway's record of granted claims."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from assayd.model.attempt import Attempt, State
from assayd.model.submission import Peer
from assayd_cluster.gateway.runs import KEPT, MAX_BYTES, HeldRun, HeldRunCache

ATTEMPT = Attempt(
    id="a",
    kind="code",
    policy="default",
    input_digest="d",
    created_at=datetime(2026, 3, 1, tzinfo=UTC),
    peer=Peer(uid=1, gid=1, pid=1),
    state=State.RUNNING,
)
HELD = HeldRun(number=1, node="n", leased_at=0, attempt=ATTEMPT, document=b"{}")


def test_run_is_found_by_its_node_and_number_alone() -> None:
    held = HeldRunCache()
    held.add(HELD)
    assert held.find("n", "a", 1) is HELD
    assert held.find("other", "a", 1) is None
    assert held.find("n", "a", 2) is None


def test_later_run_takes_the_place_of_the_earlier() -> None:
    held = HeldRunCache()
    held.add(HELD)
    held.add(replace(HELD, number=2, node="other"))
    assert held.find("n", "a", 1) is None
    assert held.find("other", "a", 2) is not None


def test_oldest_claim_makes_room() -> None:
    held = HeldRunCache()
    for number in range(KEPT + 1):
        held.add(replace(HELD, attempt=replace(ATTEMPT, id=str(number))))
    assert held.find("n", "0", 1) is None
    assert held.find("n", "1", 1) is not None


def test_large_submission_is_not_kept() -> None:
    held = HeldRunCache()
    held.add(replace(HELD, document=bytes(MAX_BYTES + 1)))
    assert held.find("n", "a", 1) is None
    held.add(replace(HELD, document=bytes(MAX_BYTES)))
    assert held.find("n", "a", 1) is not None
