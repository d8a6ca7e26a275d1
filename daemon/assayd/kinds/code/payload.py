"""The payload of a code node, the facts read from its code, and samples for the self-test."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from assayd.findings.expected import CASES, ExpectedCase, require_unique_names
from assayd.model.submission import Sample

Module = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,99}$")]


class CodeCase(ExpectedCase):
    """The expected `result` for given inputs. The listed fields must be equal, others are ignored."""

    inputs: dict[str, object] = Field(default_factory=dict, max_length=100)
    expected: object


class CodePayload(BaseModel):
    """A code node: Python with typed inputs and one typed result."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, cache_strings="none")

    code: str = Field(description="Python, or a model's answer with it.")
    inputs: dict[str, object] = Field(
        default_factory=dict,
        max_length=100,
        description="Values of its declared names; values without a JSON form are tagged objects.",
    )
    timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="Tightens the policy's `unit_timeout_s`."
    )
    requires: tuple[Module, ...] = Field((), max_length=50, description="Modules that the code needs.")
    cases: tuple[CodeCase, ...] = Field(
        (),
        max_length=CASES,
        description="Runs with their own inputs and expected results; without `inputs`, the only ones.",
    )

    @field_validator("cases")
    @classmethod
    def _require_unique_names(cls, cases: tuple[CodeCase, ...]) -> tuple[CodeCase, ...]:
        require_unique_names(cases)
        return cases

    def merge_inputs(self) -> dict[str, object]:
        """Return the inputs of all runs by name, with the first value of each input."""
        given: dict[str, object] = dict(self.inputs)
        for case in self.cases:
            given = {**case.inputs, **given}
        return given


class PreparedCode(CodePayload):
    """A payload with the facts read from its code, so that the code isn't parsed again."""

    model_config = ConfigDict(strict=False, cache_strings="none")

    result_types: frozenset[str] = frozenset()
    result_annotation: str = ""
    result_line: int | None = None
    awaited: tuple[str, ...] = ()


_ORDERS = [
    {"id": 1, "customer": "acme", "total": 120.5, "paid": True},
    {"id": 2, "customer": "nord", "total": 80.0, "paid": False},
    {"id": 3, "customer": "acme", "total": 42.25, "paid": True},
]

_VALID_CODE = """
from collections import defaultdict

orders: list[dict]
least: float

totals = defaultdict(float)
for order in orders:
    if order["paid"]:
        totals[order["customer"]] += order["total"]

result: dict[str, float] = {name: total for name, total in totals.items() if total >= least}
"""

_TAGGED = """
from datetime import datetime, timedelta

days: set
start: datetime
result: list = sorted(start + timedelta(days=day) for day in days)
"""


def _sample(
    name: str, code: str, *rules: str, verdict: str = "failed", runs: bool = False, **inputs: object
) -> Sample:
    payload = {"code": code, "inputs": inputs}
    return Sample(name=name, payload=payload, verdict=verdict, rules=frozenset(rules), needs_container=runs)


SAMPLES = (
    _sample("good", _VALID_CODE, verdict="validated", runs=True, orders=_ORDERS, least=100),
    _sample(
        "good_tagged",
        _TAGGED,
        verdict="validated",
        runs=True,
        days={"$py": "set", "value": [1, 2]},
        start={"$py": "datetime", "value": "2024-02-28T00:00:00"},
    ),
    _sample("syntax", "data: list\nresult: list = [n for n in data\n", "syntax.unclosed_bracket", data=[]),
    _sample("undeclared", "result: int = len(data)\n", "annotations.missing_input", data=[]),
    _sample("no_result", "data: list\nprint(data)\n", "annotations.missing_result", data=[]),
    _sample("any", "data: any\nresult: list = [data]\n", "annotations.lower_case_any", data=[]),
    _sample("typing", "data: List[int]\nresult: list = data\n", "annotations.not_imported", data=[]),
    _sample("input_type", "data: list\nresult: int = len(data)\n", "inputs.type", data={}),
    _sample("encoding", "d: set\nresult: set = d\n", "inputs.encoding", d={"$py": "set", "value": "ab"}),
    _sample("undefined", "result: int = total\n", "name.undefined"),
    _sample("deleted", "n: int\ndel n\nresult: int = n\n", "sandbox.name_undefined", runs=True, n=1),
    _sample("module", "import acme_reports\nresult: int = 1\n", "sandbox.module_missing", runs=True),
    _sample("raised", "rows: list\nresult: int = rows[3]\n", "sandbox.raised", runs=True, rows=[]),
    _sample("endless", "while True: pass\nresult: int = 1\n", "sandbox.timeout", runs=True),
    _sample("result_type", "result: list = dict(a=1)\n", "result.type", runs=True),
    _sample("result_missing", "result: int\nif False:\n    result = 1\n", "result.missing", runs=True),
    _sample(
        "object", "result: object = [object()]\n", "result.not_plain", runs=True, verdict="validated"
    ),
)  # fmt: skip
