from __future__ import annotations

import pytest

from assayd import __version__
from assayd_cluster.documents import NodeHeartbeat
from assayd_cluster.gateway.readiness import _explain_idle_nodes
from assayd_cluster.nodes import ClusterSnapshot, LiveNode, are_versions_compatible, find_rejection_reason

PROFILES = {"one": "a" * 64, "two": "b" * 64}


def beat(**changes: object) -> NodeHeartbeat:
    said = {"capacity": 4, "ready": True, "version": __version__, "profiles": PROFILES}
    return NodeHeartbeat.model_validate({**said, **changes})


def test_node_that_is_as_the_gateway_takes_work() -> None:
    assert find_rejection_reason(beat(), PROFILES) == ""
    assert find_rejection_reason(beat(profiles={**PROFILES, "of its own": "c" * 64}), PROFILES) == ""


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"profiles": {**PROFILES, "two": "c" * 64}}, "profiles differ from the gateway's: two;"),
        ({"profiles": {"one": "a" * 64}}, "profiles differ from the gateway's: two;"),
        ({"version": "9.1.0"}, "version 9.1.0 is more than one minor away"),
        ({"draining": True}, "the node is draining"),
        ({"ready": False, "reason": "isolation check failed"}, "isolation check failed"),
        ({"ready": False}, "its daemon isn't ready"),
        ({"ready": False, "reason": "assayd doesn't answer", "profiles": {}}, "assayd doesn't answer"),
        ({"leaving": True, "draining": True}, "stopped in order"),
        ({"waiting": 2}, "runs wait in its daemon"),
        ({"waiting": 2, "ready": False}, "its daemon isn't ready"),
    ],
)
def test_node_that_differs_is_told_why_it_takes_no_work(changes: dict[str, object], why: str) -> None:
    assert find_rejection_reason(beat(**changes), PROFILES).startswith(why)


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        ("0.1.0", "0.1.9", True),
        ("0.1.0", "0.2.0", True),
        ("0.1.0", "0.3.0", False),
        ("0.1.0", "1.1.0", False),
        ("0.1.0", "x", False),
        ("1", "1.0.0", False),
        ("0.1.0.dev1", "0.1.0", True),
    ],
)
def test_versions_one_minor_apart_work_together(one: str, other: str, agree: bool) -> None:
    assert are_versions_compatible(one, other) is are_versions_compatible(other, one) is agree


@pytest.mark.parametrize("gateways", [1, 2, 3, 5])
@pytest.mark.parametrize("capacity", [1, 2, 3, 8, 64])
def test_tenant_that_leaves_a_place_at_each_gateway_leaves_one_of_the_nodes(
    capacity: int, gateways: int
) -> None:
    node = LiveNode(name="a", capacity=capacity, why="", version="1", engine="", images={})
    census = ClusterSnapshot(nodes=[node], gateways=gateways)
    assert gateways * census.share >= capacity
    assert gateways * (census.share - 1) < capacity


def test_callers_are_not_told_what_nodes_say_of_themselves() -> None:
    node = LiveNode(name="secret-1", capacity=1, why="its disk is full", version="1", engine="", images={})
    told = _explain_idle_nodes(ClusterSnapshot(nodes=[node]))
    assert told.startswith("none of 1 nodes takes attempts")
    assert "secret" not in told
    assert "disk" not in told
