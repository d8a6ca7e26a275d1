"""The daemon's own check of an adapter: its unit's record, and its findings."""

from __future__ import annotations

import json

import pytest

from assayd.kinds.module.adapter_unit import build_probe, judge_adapter
from assayd.model.finding import Finding
from assayd.model.policy import AdapterContract
from assayd.model.run import Cause, PolicyEvent, RunOutcome, UnitResult

FILE = "adapter.py"
TEXTS = {FILE: "import os\nraise RuntimeError\n"}
WEATHER = {
    "name": "Weather",
    "module": "adapter",
    "methods": dict.fromkeys(("fetch_raw", "transform", "get_schema"), "callable"),
}
RAISED = {
    "status": "raised",
    "error_type": "RuntimeError",
    "message": "not now",
    "file": FILE,
    "line": 2,
    "traceback": "Traceback …",
    "where": "<module>",
    "phase": "call",
}


def unit(record: object, cause: Cause = Cause.COMPLETED, *events: PolicyEvent) -> UnitResult:
    return UnitResult(
        name="contract",
        wait_status=0 if cause is Cause.COMPLETED else 256,
        results=() if record is None else (json.dumps(record).encode(),),
        events=events,
        outcome=RunOutcome(cause=cause),
    )


def found(*classes: object) -> dict[str, object]:
    value = {"value": list(classes), "value_type": "list", "notes": []}
    return {"status": "returned", "values": {"found": value}, "missing": []}


def judge(result: UnitResult | None) -> tuple[Finding, ...]:
    return judge_adapter(FILE, result, TEXTS, AdapterContract())


def rules(result: UnitResult | None) -> list[str]:
    return [finding.rule for finding in judge(result)]


def test_registered_class_with_its_methods_is_fine() -> None:
    assert rules(unit(found(WEATHER))) == []
    assert rules(unit(found({**WEATHER, "module": "client"}, WEATHER))) == []


@pytest.mark.parametrize("classes", [[], [{**WEATHER, "module": "client"}], ["Weather"], [{}]])
def test_adapter_that_registers_no_class_of_its_own_is_told(classes: list[object]) -> None:
    [finding] = judge(unit(found(*classes)))
    assert (finding.rule, finding.file, finding.category) == (
        "contract.not_registered",
        FILE,
        "missing_method",
    )


@pytest.mark.parametrize("form", ["missing", "NoneType", 1, None])
def test_method_that_is_none_is_told(form: object) -> None:
    [finding] = judge(unit(found({**WEATHER, "methods": {**WEATHER["methods"], "transform": form}})))
    assert (finding.rule, "Weather.transform" in finding.message) == ("contract.not_callable", True)


def test_import_that_raises_is_told_with_its_place() -> None:
    [finding] = judge(unit(RAISED, Cause.EXITED_NONZERO))
    assert (finding.rule, finding.file, finding.line) == ("contract.import_failed", FILE, 2)
    assert finding.snippet == "raise RuntimeError"
    assert rules(unit({**RAISED, "error_type": "SyntaxError"}, Cause.EXITED_NONZERO)) == [
        "syntax.guest_disagrees"
    ]


@pytest.mark.parametrize(
    ("record", "cause", "rule"),
    [
        (None, Cause.TIMEOUT, "sandbox.timeout"),
        (None, Cause.PROTOCOL_VIOLATION, "sandbox.protocol_violation"),
        ({"status": "x"}, Cause.COMPLETED, "sandbox.protocol_violation"),
        (
            {"status": "returned", "value": 1, "value_type": "int"},
            Cause.COMPLETED,
            "sandbox.protocol_violation",
        ),
        (found(WEATHER), Cause.EXITED_NONZERO, "sandbox.exited_nonzero"),
        (found(WEATHER), Cause.OUT_OF_MEMORY, "sandbox.out_of_memory"),
    ],
)
def test_other_ends_keep_their_own_rules(record: object, cause: Cause, rule: str) -> None:
    assert rules(unit(record, cause)) == [rule]


def test_refused_acts_are_findings() -> None:
    events = (
        PolicyEvent(kind="network", detail="a.org:443", allowed=False, enforced=True, file=FILE, line=1),
        PolicyEvent(kind="os._exit", detail="os._exit", allowed=False, enforced=True, file=FILE, line=2),
    )
    assert rules(unit(found(WEATHER), Cause.POLICY_VIOLATION, *events)) == [
        "policy.network",
        "contract.import_failed",
    ]


def test_unit_that_never_started_says_nothing() -> None:
    assert rules(None) == []


def test_probe_imports_by_the_names_of_the_profile() -> None:
    text = build_probe("weather", AdapterContract(modules=("shared.base", "other")))
    compile(text, "contract.py", "exec")
    assert "from shared.base import registered" in text
    assert "import weather" in text
