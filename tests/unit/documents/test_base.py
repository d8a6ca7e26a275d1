import json
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter

from assayd.documents import canonical, serialize_compact, to_plain
from assayd.documents.base import BaseDocument, Timestamp
from assayd.model.attempt import Artifact, Failure
from assayd.model.batch import ReceivedLines
from assayd.model.finding import Edit, FixHint, Rule
from assayd.model.policy import ClampedValue
from assayd.model.report import StaticResult
from assayd.model.submission import Peer


@dataclass(frozen=True)
class Value:
    name: str
    at: datetime
    unknown: int = 1


class Small(BaseDocument):
    name: str
    at: Timestamp
    parts: list[Artifact]


ARTIFACT = {"name": "a", "bytes": 1, "sha256": "00", "media_type": "text/plain", "truncated": False}
VALUE = Value(name="n", at=datetime(2026, 5, 4, tzinfo=UTC))


def small(name: str = "n") -> Small:
    artifact = Artifact(**ARTIFACT)
    return Small.from_value(VALUE, name=name, parts=[artifact])


def test_document_takes_the_attributes_of_its_names_and_what_else_is_given() -> None:
    expected = {"name": "n", "at": "2026-05-04T00:00:00.000000Z", "parts": [ARTIFACT]}
    assert to_plain(small()) == expected
    assert Small.model_validate(expected) == small()


def test_attribute_that_is_missing_is_a_mistake_of_ours() -> None:
    with pytest.raises(AttributeError, match="parts"):
        Small.from_value(VALUE)


def test_both_writers_write_documents_as_the_model_does() -> None:
    assert serialize_compact(small()) == small().model_dump_json().encode()
    assert (
        canonical({"in": [small()]})
        == json.dumps({"in": [small().model_dump()]}, sort_keys=True, separators=(",", ":")).encode()
    )


def test_lone_surrogate_of_a_guest_is_written_as_a_question_mark() -> None:
    assert json.loads(serialize_compact(small("a\udc80b")))["name"] == "a?b"


def test_what_is_no_document_is_not_written() -> None:
    with pytest.raises(TypeError, match="Value isn't JSON"):
        serialize_compact(VALUE)


def test_value_that_is_its_own_document_is_written_in_the_order_of_its_fields() -> None:
    assert serialize_compact(Artifact(**ARTIFACT)) == json.dumps(ARTIFACT, separators=(",", ":")).encode()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", [Artifact, ClampedValue, Edit, Failure, FixHint, Peer, ReceivedLines, Rule, StaticResult]
)
def test_each_field_of_a_value_that_is_its_own_document_is_described(value: type) -> None:
    properties = TypeAdapter(value).json_schema()["properties"]
    assert all(field["description"] for field in properties.values())
