from __future__ import annotations

import pytest

from assayd_cluster.gateway.claiming import LastRun, NodeEligibility, Refusal, decide_claim


def last(number: int = 1, node: str = "a", *, over: bool = False, alive: bool = False) -> LastRun:
    return LastRun(number=number, node=node, over=over, alive=alive)


@pytest.mark.parametrize(
    ("node", "before", "others", "decided"),
    [
        ("a", None, False, 1),
        ("a", last(alive=True), False, 1),
        ("a", last(alive=False), False, 1),
        ("b", last(alive=True), False, Refusal.HELD),
        ("b", last(alive=False), False, 2),
        ("b", last(over=True), False, 2),
        ("a", last(over=True), True, Refusal.ELSEWHERE),
        ("a", last(over=True), False, 2),
        ("b", last(2, "b"), False, 2),
        ("a", last(2, "b", alive=True), True, Refusal.HELD),
        ("a", last(2, "b", over=True), True, Refusal.EXHAUSTED),
        ("a", last(2, "b"), True, Refusal.EXHAUSTED),
    ],
)
def test_run_that_a_claim_gets(
    node: str, before: LastRun | None, others: bool, decided: int | Refusal
) -> None:
    assert decide_claim(node, before, cancelled=False, others=others) == decided


@pytest.mark.parametrize("before", [None, last(alive=True), last(over=True)])
def test_cancelled_attempt_gets_no_run(before: LastRun | None) -> None:
    assert decide_claim("a", before, cancelled=True, others=True) is Refusal.OVER


@pytest.mark.parametrize(
    ("standing", "refusal"), [(NodeEligibility.SILENT, Refusal.SILENT), (NodeEligibility.IDLE, Refusal.IDLE)]
)
def test_node_without_standing_gets_only_what_it_holds(standing: NodeEligibility, refusal: Refusal) -> None:
    for before in (None, last(node="b"), last(over=True), last(node="b", alive=True)):
        assert decide_claim("a", before, cancelled=False, others=True, standing=standing) is refusal
    assert decide_claim("a", last(), cancelled=False, others=True, standing=standing) == 1
