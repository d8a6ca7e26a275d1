"""A cluster of two nodes for the tests in this folder, and their measured figures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.load import Load
from support.cluster.whole import WholeCluster, whole_cluster

DELIVERY_TIMEOUT_S = 20
FIGURES = Path(__file__).resolve().parents[2] / ".run/cluster-faults.json"


@pytest.fixture(scope="session")
def cluster() -> Iterator[WholeCluster]:
    with whole_cluster(DELIVERY_TIMEOUT_S=str(DELIVERY_TIMEOUT_S)) as cluster:
        cluster.wait_for_nodes({"node-1", "node-2"})
        yield cluster


@pytest.fixture
def load(cluster: WholeCluster) -> Load:
    return Load(cluster.socket)


@pytest.fixture(scope="session")
def figures() -> Iterator[dict[str, object]]:
    """Return a dictionary for figures; they are printed and saved at the end."""
    noted: dict[str, object] = {}
    yield noted
    FIGURES.write_text(json.dumps(noted, indent=1) + "\n")
    print(f"\n{json.dumps(noted, indent=1)}")
