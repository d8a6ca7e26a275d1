from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

import assayd
from assayd import kinds
from assayd.errors import ConfigError, RequestError
from assayd.kinds import registry as validators
from assayd.kinds.extractor import validator as extractor
from assayd.model.prompting import Proposal

OFFERED = EntryPoints(
    [
        EntryPoint(name="other", value=f"{__name__}:OTHER", group=validators.GROUP),
        EntryPoint(name="again", value="assayd.kinds.extractor.validator:validator", group=validators.GROUP),
        EntryPoint(name="broken", value="assayd.no_such_module:validator", group=validators.GROUP),
    ]
)


class _Other(extractor.ExtractorKind):
    name = "other"


OTHER = _Other()


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the installed distributions, with an entry point that must never be loaded unasked."""

    def entry_points(*, group: str) -> EntryPoints:
        assert group == validators.GROUP
        return OFFERED

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)


def test_validators_of_the_package_are_found_by_scanning() -> None:
    found = validators.load_own_validators()
    assert found["extractor"] is extractor.validator
    assert all(kind == validator.name for kind, validator in found.items())


def test_a_kind_is_found_by_its_name() -> None:
    assert validators.find_validator("extractor") is extractor.validator


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    with pytest.raises(RequestError, match="extractor") as refused:
        validators.find_validator("extracter")
    assert (refused.value.code, refused.value.field) == ("kind.unknown", "kind")


@pytest.mark.usefixtures("offered")
def test_only_named_entry_points_are_loaded() -> None:
    assert validators.load_validators([]) == validators.load_own_validators()
    assert validators.load_validators(["other"])["other"] is OTHER


@pytest.mark.usefixtures("offered")
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("absent", "validator.missing"),
        ("again", "validator.duplicate"),
        ("broken", "validator.broken"),
    ],
)
def test_a_name_without_offer_and_a_second_of_a_kind_are_refused(name: str, code: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validators.load_validators([name])
    assert (refused.value.code, refused.value.field) == (code, name)


def test_own_kinds_are_known_by_their_folders_before_any_is_imported() -> None:
    program = (
        "import sys; from assayd.kinds import registry; print(*registry.list_own_kinds());"
        "print([registry.load_command_line(kind).case for kind in registry.list_own_kinds()]);"
        "print(*(name for name in sys.modules if name.endswith('.validator') or name == 'pydantic'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    kinds, cases, imported = done.stdout.split("\n")[:3]
    assert kinds.split() == list(validators.load_own_validators())
    assert "step" in cases
    assert imported == ""


def test_every_reference_of_a_kind_of_the_package_leads_somewhere() -> None:
    for kind, validator in validators.load_own_validators().items():
        shown = validators.load_command_line(kind)
        named = [getattr(validator, name, "") for name in ("recorder", "routes")]
        for reference in filter(None, [*named, shown.commands, *shown.forms.values()]):
            assert validators.import_reference(reference) is not None


@pytest.mark.parametrize("reference", ["assayd.no_such_module:name", "assayd.clock:no_such_name", "no dots"])
def test_reference_that_leads_nowhere_is_told(reference: str) -> None:
    with pytest.raises(ConfigError, match=reference.split(":")[0]) as refused:
        validators.import_reference(reference)
    assert refused.value.code == "validator.broken"


@pytest.mark.slow
def test_nothing_outside_of_a_kind_names_it() -> None:
    package = Path(kinds.__file__).parents[1]
    outside = [path for path in package.rglob("*.py") if package / "kinds" not in path.parents]
    telling = set(validators.list_own_kinds()) - {
        "code",
        "module",
        "solution",
    }  # which are words of other things as well
    named = [
        f"{path.relative_to(package)}: {found}"
        for path in outside
        for node in ast.walk(ast.parse(path.read_text()))
        for found in _said(node)
        if found in telling or (found.startswith("assayd.kinds.") and found != "assayd.kinds.registry")
    ]
    assert named == []


def _said(node: ast.AST) -> list[str]:
    """Return the texts and imported modules of a syntax node."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.ImportFrom(module=str(module)):
            return [module]
        case ast.Import(names=names):
            return [name.name for name in names]
    return []


@pytest.mark.parametrize("kind", ["code", "extractor", "fifth", "script"])
@pytest.mark.parametrize("way", ["answered", "patch"])
def test_what_is_submitted_of_a_fenced_answer_is_what_is_checked(kind: str, way: str) -> None:
    validator = validators.find_validator(kind)
    sample = next(one for one in validator.samples if one.verdict == "validated" and "code" in one.payload)
    code = str(sample.payload["code"]).strip("\n") + "\n"
    language = "forth" if kind == "fifth" else "python"
    answer = f"Here you are:\n\n```{language}\n{code}```\nAs asked.\n"
    before = validator.payload.model_validate_json(json.dumps(sample.payload))
    if way == "answered":
        document = validator.answered(sample.payload, Proposal(code=answer))
    else:
        document = validator.patch(before, "code", answer)
    assert document["code"] == code
    assert validator.prepare(validator.payload.model_validate_json(json.dumps(document))).code == code


@pytest.mark.slow
def test_daemon_without_wings_has_the_core_kinds_and_names_the_missing_ones(
    tmp_path: Path,
) -> None:
    (tmp_path / "assayd").symlink_to(Path(assayd.__file__).parent)
    program = (
        f"import sys\nsys.path[:] = [{str(tmp_path)!r}, *(p for p in sys.path if p[-7:] != '/daemon')]\n"
        "from assayd.kinds import registry\n"
        "from assayd.model.health import build_kinds_row\n"
        "import assayd.wiring.build\n"
        "print(*registry.load_validators([]))\n"
        "print(build_kinds_row(registry.find_missing_packages(), {}).detail)\n"
        "print(registry.format_unknown_kind_message('fifth', registry.list_own_kinds()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "code extractor module script solution",
        "not installed: fifth (assayd_fifth), pipeline (assayd_pipeline)",
        "the kind 'fifth' isn't installed: the package assayd_fifth is missing",
    ]
