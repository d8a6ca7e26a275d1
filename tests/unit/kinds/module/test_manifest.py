"""The manifest's schema, with a JSON pointer for each error."""

from __future__ import annotations

import pytest

from assayd.kinds.module.contract import check_manifest
from assayd.kinds.module.generating import MANIFEST

FULL = {
    **MANIFEST,
    "description": "d" * 500,
    "auth": {"type": "api_key", "required_credentials": ["key"]},
    "pagination": {"supported": True, "type": "cursor", "max_page_size": 1},
    "rate_limits": {"requests_per_minute": 60},
    "outputs": {"schema_ref": "schema.json", "mime_types": ["application/json"]},
    "artifacts": {"produces": ["chart", "report"]},
}


def test_whole_manifest_is_accepted() -> None:
    assert list(check_manifest(FULL)) == []
    assert list(check_manifest(MANIFEST)) == []


@pytest.mark.parametrize(
    ("change", "rule", "pointer"),
    [
        ({"version": "1.0"}, "manifest.value", "/version"),
        ({"version": "1.0.0\n"}, "manifest.value", "/version"),
        ({"module_id": "Weather/x"}, "manifest.value", "/module_id"),
        ({"category": "wea ther"}, "manifest.value", "/category"),
        ({"category": "weather2"}, "manifest.value", "/category"),
        ({"platform": "open-meteo"}, "manifest.value", "/platform"),
        ({"entrypoint": "1x"}, "manifest.value", "/entrypoint"),
        ({"capabilities": []}, "manifest.value", "/capabilities"),
        ({"capabilities": ["ok", "Not"]}, "manifest.value", "/capabilities/1"),
        ({"capabilities": "current"}, "manifest.type", "/capabilities"),
        ({"version": 1}, "manifest.type", "/version"),
        ({"description": "d" * 501}, "manifest.value", "/description"),
        ({"auth": {"type": "magic"}}, "manifest.value", "/auth/type"),
        ({"auth": {}}, "manifest.missing", "/auth/type"),
        ({"pagination": {"max_page_size": 0}}, "manifest.value", "/pagination/max_page_size"),
        ({"pagination": {"max_page_size": "9"}}, "manifest.type", "/pagination/max_page_size"),
        ({"artifacts": {"produces": ["film"]}}, "manifest.value", "/artifacts/produces/0"),
        ({"outputs": {"colour": "red"}}, "manifest.unknown", "/outputs/colour"),
        ({"a/b~c": 1}, "manifest.unknown", "/a~1b~0c"),
    ],
)
def test_error_has_its_pointer(change: dict[str, object], rule: str, pointer: str) -> None:
    [finding] = check_manifest({**FULL, **change})
    assert (finding.rule, finding.context, finding.category) == (rule, pointer, "schema_error")
    assert finding.message.startswith(f"manifest {pointer}: ")
    assert finding.suggestion


def test_error_shows_what_is_there_and_what_may_be() -> None:
    [finding] = check_manifest({**FULL, "platform": "open-meteo"})
    assert "'open-meteo' isn't lowercase letters" in finding.message
    assert (finding.suggestion or "").endswith('For example: "platform": "open_meteo"')


@pytest.mark.parametrize("field", MANIFEST)
def test_required_field_is_missed(field: str) -> None:
    manifest = {key: value for key, value in MANIFEST.items() if key != field}
    [finding] = check_manifest(manifest)
    assert (finding.rule, finding.context) == ("manifest.missing", f"/{field}")


def test_all_errors_are_given_at_once() -> None:
    assert len(list(check_manifest({}))) == len(MANIFEST)


def test_id_that_is_not_made_of_category_and_platform_is_a_warning() -> None:
    [finding] = check_manifest({**MANIFEST, "module_id": "other/thing"})
    assert (finding.rule, finding.is_error) == ("manifest.module_id", False)
