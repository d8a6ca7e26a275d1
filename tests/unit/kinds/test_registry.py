from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from assayd.errors import ConfigError, RequestError
from assayd.kinds import registry as validators
from assayd.kinds.extractor import validator as extractor

OFFERED = EntryPoints(
    [
        EntryPoint(name="other", value=f"{__name__}:OTHER", group=validators.GROUP),
        EntryPoint(name="again", value="assayd.kinds.extractor.validator:validator", group=validators.GROUP),
        EntryPoint(name="broken", value="assayd.no_such_module:validator", group=validators.GROUP),
    ]
)


class _Other(extractor.Extractor):
    kind = "other"


OTHER = _Other()


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for installed distributions, with an entry point that must never be loaded unasked."""

    def entry_points(*, group: str) -> EntryPoints:
        assert group == validators.GROUP
        return OFFERED

    monkeypatch.setattr(validators, "entry_points", entry_points)
    monkeypatch.setattr(
        EntryPoint, "load", lambda entry: {"other": OTHER, "again": extractor.validator}[entry.name]
    )


def test_validators_of_the_package_are_found_by_scanning() -> None:
    found = validators.all_validators()
    assert found["extractor"] is extractor.validator
    assert all(kind == validator.kind for kind, validator in found.items())


def test_a_kind_is_found_by_its_name() -> None:
    assert validators.find("extractor") is extractor.validator


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    with pytest.raises(RequestError, match="extractor") as refused:
        validators.find("extracter")
    assert (refused.value.code, refused.value.field) == ("kind.unknown", "kind")


@pytest.mark.usefixtures("offered")
def test_only_named_entry_points_are_loaded() -> None:
    assert validators.load([]) == validators.all_validators()
    assert validators.load(["other"])["other"] is OTHER


@pytest.mark.usefixtures("offered")
@pytest.mark.parametrize(
    ("name", "code"), [("absent", "validator.missing"), ("again", "validator.duplicate")]
)
def test_a_name_without_offer_and_a_second_of_a_kind_are_refused(name: str, code: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validators.load([name])
    assert (refused.value.code, refused.value.field) == (code, name)
