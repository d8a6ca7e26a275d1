from __future__ import annotations

from types import SimpleNamespace

import pytest

from assayd.errors import ConfigError
from assayd.kinds.registry import all_validators
from assayd.wiring.from_kinds import recorders_of, routers_of


def test_recorders_and_routes_are_those_that_kinds_refer_to() -> None:
    assert [recorder.kind for recorder in recorders_of(all_validators())] == ["pipeline"]
    paths = [route.path for router in routers_of(all_validators()) for route in router.routes]
    runs = "/v1/pipelines/runs"
    assert paths == ["/v1/pipelines", runs, runs, "/v1/pipelines/{id}"]


@pytest.mark.parametrize("routes", ["assayd.ids:Ulids", "assayd.no_such_module:router"])
def test_routes_that_are_none_are_refused_with_their_reference(routes: str) -> None:
    with pytest.raises(ConfigError, match=routes) as refused:
        routers_of({"odd": SimpleNamespace(routes=routes)})  # type: ignore[dict-item]
    assert refused.value.code == "validator.broken"


def test_kind_that_brings_nothing_is_left_alone() -> None:
    kinds = {"extractor": all_validators()["extractor"]}
    assert (recorders_of(kinds), routers_of(kinds)) == ((), ())
