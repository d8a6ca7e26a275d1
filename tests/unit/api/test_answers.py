import json

import pytest

from assayd.api import SocketAccess, create_app
from assayd.kinds.registry import load_own_validators
from assayd_chains.routes import ROUTERS as CHAIN_ROUTERS
from support.daemons.fake_service import FakeService


@pytest.fixture(scope="module")
def reference() -> dict:
    service = FakeService()
    service.kinds = load_own_validators()
    return create_app(service, None, access=SocketAccess(), routers=CHAIN_ROUTERS).openapi()


def operations(reference: dict) -> dict[str, dict]:
    found = [operation for path in reference["paths"].values() for operation in path.values()]
    return {operation["operationId"]: operation for operation in found}


def test_operations_are_named_once_and_for_good(reference) -> None:
    names = operations(reference).keys()
    assert len(names) == sum(len(path) for path in reference["paths"].values())
    assert {"submit_attempt", "put_attempt", "get_attempt", "list_attempts", "cancel_attempt"} <= names
    assert {"submit_batch", "get_batch", "get_batch_results", "start_repair", "get_repair"} <= names


def test_submission_is_told_apart_by_its_kind(reference) -> None:
    schemas = reference["components"]["schemas"]
    body = schemas["SubmissionBody"]
    assert body["discriminator"]["mapping"].keys() == load_own_validators().keys()
    assert {each["$ref"] for each in body["oneOf"]} == set(body["discriminator"]["mapping"].values())
    for kind, place in body["discriminator"]["mapping"].items():
        properties = schemas[place.rpartition("/")[2]]["properties"]
        payload = schemas[properties["payload"]["$ref"].rpartition("/")[2]]
        assert properties["kind"]["const"] == kind
        assert payload["properties"].keys() == load_own_validators()[kind].payload.model_fields.keys()


def test_models_are_named_as_the_contract_names_them(reference) -> None:
    schemas = reference["components"]["schemas"]
    assert {"Attempt", "Report", "Finding", "Execution", "Artifact", "Batch", "Repair"} <= schemas.keys()
    assert not [name for name in schemas if name.endswith("Document")]
    for part in json.dumps(reference).split('"#/components/schemas/')[1:]:
        assert part.partition('"')[0] in schemas


def test_lines_can_be_sent_by_clients_that_know_only_bytes(reference) -> None:
    content = operations(reference)["submit_batch"]["requestBody"]["content"]
    assert content.keys() == {"application/x-ndjson", "application/octet-stream"}


@pytest.mark.parametrize("name", ["get_batch_results", "get_bundle", "get_metrics", "follow_attempt"])
def test_answer_that_is_no_json_is_not_called_so(reference, name) -> None:
    assert "application/json" not in operations(reference)[name]["responses"]["200"]["content"]
