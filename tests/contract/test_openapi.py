"""Every operation of the reference, called with what fits it and what does not, answers as it says.

The examples are the same every time. Streams without an end are left out here; they have tests of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, openapi
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from assayd.api import SocketAccess, create_app
from assayd.kinds.registry import load_own_validators
from assayd.wiring.wings import load_routers
from assayd_chains.routes import ROUTERS as CHAIN_ROUTERS
from assayd_client import PlainClient
from support.cluster.small_gateway import serving_gateway
from support.daemons.fake_service import FakeService
from support.daemons.server import serving_small
from support.daemons.small_daemon import submission

ENDLESS = {"/v1/events"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 8
PASSED_ON = ("method", "url", "params", "headers", "cookies", "json")

ROUTERS = (*CHAIN_ROUTERS, *load_routers(load_own_validators()))
SCHEMA = openapi.from_dict(create_app(FakeService(), None, access=SocketAccess(), routers=ROUTERS).openapi())
OPERATIONS = {
    f"{each.ok().method.upper()} {each.ok().path}": each.ok()
    for each in SCHEMA.get_all_operations()
    if each.ok().path not in ENDLESS
}
WAYS = [(name, GenerationMode.POSITIVE) for name in OPERATIONS]
# A path can't be of a wrong type: only other parameters and bodies can be.
WAYS += [(name, GenerationMode.NEGATIVE) for name, each in OPERATIONS.items() if each.query or each.body]


@schemathesis.serializer("application/x-ndjson")
def write_lines(context: object, value: object) -> bytes:
    """Send generated values as the lines of a batch."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@dataclass
class Place:
    """A server with one of everything, and their ids."""

    http: httpx.Client
    ids: list[str]


@pytest.fixture(scope="module", params=["daemon", pytest.param("gateway", marks=pytest.mark.cluster)])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the socket of a daemon, then of a gateway."""
    folder = tmp_path_factory.mktemp("s")
    if request.param == "daemon":
        with serving_small(folder) as served:
            yield served.path
        return
    with request.getfixturevalue("postgres").database() as url, serving_gateway(folder, url) as gateway:
        yield gateway.path


@pytest.fixture(scope="module")
def place(path: Path) -> Iterator[Place]:
    with PlainClient(path) as client:
        ids = [client.submit(submission("run"), wait_s=10)["id"]]
        ids.append(client.replay(ids[0], wait_s=10)["id"])
        sent = client.send_batch([b'{"kind": "small", "payload": {"code": "bad"}}\n{'], name="mine")
        assert [event.kind for event in client.batch_events("mine")][-1] == "finished"
        transport = httpx.HTTPTransport(uds=str(path), verify=False)
        with httpx.Client(transport=transport, base_url="http://assayd", timeout=30) as http:
            yield Place(http, [*ids, sent["id"], "mine", "small", "extractor"])


@pytest.mark.parametrize(("name", "mode"), WAYS)
def test_operation_answers_as_the_reference_says(place: Place, name: str, mode: GenerationMode) -> None:
    operation = OPERATIONS[name]
    answered: list[int] = []

    @given(case=operation.as_strategy(generation_mode=mode), known=st.sampled_from([*place.ids, None]))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def answers(case, known) -> None:
        for parameter in case.path_parameters or {}:
            if known is not None and parameter in {"id", "kind"}:
                case.path_parameters[parameter] = known
        sent = case.as_transport_kwargs(base_url="http://assayd")
        request = {key: sent[key] for key in PASSED_ON if sent.get(key)}
        if sent.get("data") is not None:
            request["content"] = sent["data"]
        response = place.http.request(**request)
        case.validate_response(response, checks=CHECKS)
        answered.append(response.status_code)

    answers()
    assert answered
    assert max(answered) < HTTPStatus.INTERNAL_SERVER_ERROR
