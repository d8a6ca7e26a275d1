"""The examples in the documentation work, and its references exist."""

from __future__ import annotations

import re
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest

from assayd.kind import Kind
from assayd.kinds import registry
from assayd.model.finding import Finding
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Judgement
from assayd.model.run import Cause, Limits, RunEndReason, RunOutcome, RunResult, UnitResult
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd.ports.command_line import KindCommandLine

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")])
LIMITS = Limits(timeout_s=10, unit_timeout_s=2, memory_bytes=2**26, max_processes=1)


@pytest.fixture(scope="module")
def example() -> Kind:
    """Return the guide's validator."""
    validator: Kind = run_block(0)["validator"]
    return validator


def run_block(number: int) -> dict[str, Any]:
    """Run one of the guide's Python blocks; return its definitions."""
    text = (ROOT / "docs/adding-a-validator.md").read_text()
    code = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[number]
    module = types.ModuleType("example")
    exec(compile(code, "adding-a-validator.md", "exec"), module.__dict__)
    return module.__dict__


def policy_of(validator: Kind) -> ExecutionPolicy:
    return load_policies([get_shared_data_path("policies")]).get(validator.default_policy)


def static_findings(validator: Kind, payload: object) -> list[Finding]:
    policy = policy_of(validator)
    checked = validator.payload.model_validate(payload)
    return [finding for stage in validator.stages for finding in stage.check(checked, policy)]


def judged(validator: Kind, payload: object, records: list[bytes]) -> Judgement:
    policy = policy_of(validator)
    checked = validator.payload.model_validate(payload)
    spec = validator.plan(checked, policy, LIMITS)
    assert spec is not None
    good = RunOutcome(cause=Cause.COMPLETED)
    units = tuple(
        UnitResult(name=unit.name, wait_status=0, results=(record,), outcome=good)
        for unit, record in zip(spec.units, records, strict=True)
    )
    return validator.judge(checked, policy, RunResult(units=units, end=RunEndReason.FINISHED, outcome=good))


def test_samples_of_the_guide_get_their_static_rules(example: Kind) -> None:
    found = {s.name: {f.rule for f in static_findings(example, s.payload)} for s in example.samples}

    assert found == {s.name: set() if s.needs_container else s.rules for s in example.samples}


def test_right_answers_pass_the_validator_of_the_guide(example: Kind) -> None:
    records = [b'{"status":"returned","value":true,"value_type":"bool","notes":[]}'] * 2

    judgement = judged(example, {"code": "", "examples": {"A": True, "B": True}}, records)

    assert judgement.stage_findings == {"sandbox": ()}
    assert [case.status for case in judgement.cases] == ["passed", "passed"]


def test_wrong_answer_fails_the_validator_of_the_guide(example: Kind) -> None:
    records = [b'{"status":"returned","value":1,"value_type":"int","notes":[]}']

    judgement = judged(example, {"code": "", "examples": {"A": True}}, records)

    assert [finding.rule for finding in judgement.stage_findings["sandbox"]] == ["predicate.wrong"]


def test_example_of_the_guide_can_be_repaired(example: Kind) -> None:
    payload = example.payload.model_validate({"code": "def accepts(x) : return 1", "examples": {"a": True}})
    context = example.context(payload, {"retry_context": "wrong", "stage_reached": "sandbox"})
    patched = example.patch(payload, context.passage.name, "def accepts(x):\n    return True\n")

    assert (context.passage.text, context.failure) == (payload.code, "wrong")
    assert example.payload.model_validate(patched).code.endswith("return True\n")
    laid_out = example.payload.model_validate({**patched, "code": "def accepts(x):\n  return 1"})
    assert example.normalize_text(laid_out) == example.normalize_text(payload)


def test_command_line_of_the_guide_is_one() -> None:
    shown = run_block(1)["command_line"]
    assert isinstance(shown, KindCommandLine)
    assert (shown.case, [option.name for option in shown.options], list(shown.forms)) == (
        "example",
        ["strict"],
        ["table"],
    )


def test_entry_points_of_the_guide_are_in_the_groups_that_are_read() -> None:
    text = (ROOT / "docs/adding-a-validator.md").read_text()
    blocks = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    groups = {group for block in blocks for group in tomllib.loads(block)["project"]["entry-points"]}
    assert groups == {registry.GROUP, registry.COMMAND_LINES, registry.DATA}


def test_guide_names_everything_that_a_kind_may_override() -> None:
    text = (ROOT / "docs/adding-a-validator.md").read_text()
    members = {name for name in (*vars(Kind), *Kind.__annotations__) if not name.startswith("_")}
    assert sorted(name for name in members if f"`{name}" not in text) == []


@pytest.mark.parametrize("kind", registry.list_own_kinds())
def test_every_kind_has_its_page_and_the_readme_leads_there(kind: str) -> None:
    assert f"(docs/kinds/{kind}.md)" in (ROOT / "README.md").read_text()
    assert (ROOT / f"docs/kinds/{kind}.md").is_file()


def test_readme_stays_short_enough_to_be_read() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()

    assert len(lines) <= 120
    assert [line for line in lines if len(line) > 120] == []


def test_every_page_is_linked_from_the_start_page_or_the_operating_guide() -> None:
    docs = ROOT / "docs"
    linked = {
        (start.parent / link).resolve()
        for start in (docs / "index.md", docs / "operating/README.md")
        for link in re.findall(r"\]\(([^)#:]+)", start.read_text())
    }
    pages = {
        page for page in docs.rglob("*.md") if "decisions" not in page.parts and page != docs / "index.md"
    }

    assert pages - linked == set()


def test_relative_links_lead_somewhere() -> None:
    links = [
        (document, link)
        for document in DOCUMENTS
        for link in re.findall(r"\]\((?!https?://|#)([^)#]+)(?:#[^)]*)?\)", document.read_text())
    ]

    assert len(links) > 500
    assert [(document, link) for document, link in links if not (document.parent / link).exists()] == []


def test_every_module_has_its_line_in_the_architecture() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    package = ROOT / "daemon/assayd"
    modules = {path.stem for path in package.glob("*.py")} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }

    assert {
        name for name in modules - {"__init__"} if f"`{name}`" not in text and f"`{name}/`" not in text
    } == set()


def test_maps_of_the_architecture_name_existing_files() -> None:
    sources = [path.relative_to(ROOT).as_posix() for path in (ROOT / "daemon").rglob("*.py")]
    named = [
        (page.stem, "daemon/" + ("assayd" if page.stem == "architecture" else f"assayd_{page.stem}"), name)
        for page in (ROOT / "docs/architecture.md", *(ROOT / "docs/architecture").glob("*.md"))
        for name in re.findall(r"[\w/]*\b[a-z_]+\.py\b", page.read_text())
    ]

    assert len(named) > 200
    assert [
        (page, name)
        for page, package, name in named
        if not (name.startswith("deploy/") and (ROOT / name).is_file())
        and not any(
            source.endswith(f"/{name}") and ("/" in name or source.startswith(f"{package}/"))
            for source in sources
        )
    ] == []


def test_decisions_have_a_status_with_a_date_and_a_line_in_the_index() -> None:
    index = (ROOT / "docs/decisions/README.md").read_text()
    form = re.compile(r"Status: (accepted|superseded by \[\d{4}\]\(\S+\)), 20\d\d-\d\d-\d\d\.")
    pages = sorted((ROOT / "docs/decisions").glob("0*.md"))

    assert len(pages) > 100
    assert [page.name for page in pages if not form.fullmatch(page.read_text().splitlines()[2])] == []
    assert [page.name for page in pages if f"]({page.name})" not in index] == []
