import json
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from assayd.documents import canonical, compact, plain
from assayd.documents.attempts import ArtifactDocument
from assayd.documents.base import BaseDocument, Timestamp


@dataclass(frozen=True)
class Value:
    name: str
    at: datetime
    unknown: int = 1


class Small(BaseDocument):
    name: str
    at: Timestamp
    parts: list[ArtifactDocument]


ARTIFACT = {"name": "a", "bytes": 1, "sha256": "00", "media_type": "text/plain", "truncated": False}
VALUE = Value(name="n", at=datetime(2026, 5, 4, tzinfo=UTC))


def small(name: str = "n") -> Small:
    artifact = ArtifactDocument.model_construct(**ARTIFACT)
    return Small.from_value(VALUE, name=name, parts=[artifact])


def test_document_takes_the_attributes_of_its_names_and_what_else_is_given() -> None:
    expected = {"name": "n", "at": "2026-05-04T00:00:00.000000Z", "parts": [ARTIFACT]}
    assert plain(small()) == expected
    assert Small.model_validate(expected) == small()


def test_attribute_that_is_missing_is_a_mistake_of_ours() -> None:
    with pytest.raises(AttributeError, match="parts"):
        Small.from_value(VALUE)


def test_both_writers_write_documents_as_the_model_does() -> None:
    assert compact(small()) == small().model_dump_json().encode()
    assert (
        canonical({"in": [small()]})
        == json.dumps({"in": [small().model_dump()]}, sort_keys=True, separators=(",", ":")).encode()
    )


def test_lone_surrogate_of_a_guest_is_written_as_a_question_mark() -> None:
    assert json.loads(compact(small("a\udc80b")))["name"] == "a?b"


def test_what_is_no_document_is_not_written() -> None:
    with pytest.raises(TypeError, match="Value is not JSON"):
        compact(VALUE)
