"""A small daemon, or a gateway in front of one; clients see no difference."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cluster.small_gateway import SmallGateway, serving_gateway
from support.daemons.server import Served, serving_small
from support.daemons.small_daemon import How

EITHER = ("daemon", pytest.param("gateway", marks=pytest.mark.cluster))
"""Parameters of a fixture that serves either."""


@contextmanager
def serving_either(
    request: pytest.FixtureRequest, folder: Path, how: How | None = None
) -> Iterator[Served | SmallGateway]:
    """Serve the daemon or gateway that the fixture's parameter names while the body runs."""
    if request.param == "daemon":
        with serving_small(folder, how=how) as served:
            yield served
        return
    with (
        request.getfixturevalue("postgres").empty_database() as url,
        serving_gateway(folder, url, how) as gateway,
    ):
        yield gateway
