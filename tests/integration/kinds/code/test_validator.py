"""Code nodes in containers: inputs, outputs, exceptions, missing names, large values."""

from __future__ import annotations

import textwrap

import pytest

from assayd.model.report import CaseStatus, Verdict
from assayd.model.run import Cause
from support.daemons.attempts import Attempts, Tried

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="module")]


async def run(attempts: Attempts, code: str, **inputs: object) -> Tried:
    """Run a node."""
    return await attempts.submit("code", {"code": textwrap.dedent(code), "inputs": inputs})


async def test_inputs_are_variables_and_the_result_comes_back(attempts: Attempts) -> None:
    tried = await run(
        attempts,
        """
        prices: list[float]
        rate: float
        name: str
        result: dict = {"name": name, "total": sum(prices) * rate, "main": __name__ == "__main__"}
        """,
        prices=[1.5, 2.5],
        rate=2,
        name="ü",
    )

    assert tried.verdict is Verdict.VALIDATED
    assert tried.case.result == {"name": "ü", "total": 8.0, "main": True}


async def test_values_beyond_json_come_in_and_go_out_as_what_they_are(attempts: Attempts) -> None:
    inputs: dict[str, object] = {
        "days": {"$py": "set", "value": [1, 2]},
        "pair": {"$py": "tuple", "value": [1, "a"]},
        "raw": {"$py": "bytes", "value": "AP8="},
        "at": {"$py": "datetime", "value": "2024-02-29T12:00:00+00:00"},
        "cost": {"$py": "decimal", "value": "0.10"},
        "gap": {"$py": "float", "value": "nan"},
        "far": {"$py": "float", "value": "-inf"},
        "table": {"$py": "dict", "value": [[1, "one"], [{"$py": "tuple", "value": [1, 2]}, "pair"]]},
    }
    names = (
        "days: set, pair: tuple, raw: bytes, cost: Decimal, gap: float, far: float, table: dict, at: datetime"
    )
    code = "from datetime import datetime\nfrom decimal import Decimal\n"
    code += "\n".join(name.strip() for name in names.split(","))
    code += "\nresult: list = [days, pair, raw, at, cost, gap, far, table, gap != gap, table[1, 2], cost * 3]"

    tried = await attempts.submit("code", {"code": code, "inputs": inputs})

    order = ("days", "pair", "raw", "at", "cost", "gap", "far", "table")
    assert tried.verdict is Verdict.VALIDATED, tried.findings
    expected = [inputs[name] for name in order]
    assert tried.case.result == [*expected, True, "pair", {"$py": "decimal", "value": "0.30"}]


async def test_output_is_kept_also_when_the_code_raises(attempts: Attempts) -> None:
    tried = await run(
        attempts,
        """
        import sys
        data: list
        print("looking at", len(data))
        print("careful", file=sys.stderr)

        def pick(rows):
            return rows[5]

        result: int = pick(data)
        """,
        data=[1],
    )

    case, [finding] = tried.case, tried.findings
    assert (tried.verdict, tried.failed_stage, finding.rule) == (Verdict.FAILED, "sandbox", "sandbox.raised")
    assert (case.stdout, case.stderr) == ("looking at 1\n", "careful\n")
    assert (case.status, case.error_type, case.line) == (CaseStatus.FAILED, "IndexError", 8)
    assert (finding.line, finding.snippet) == (8, "    return rows[5]")
    assert finding.message == "IndexError: list index out of range"
    assert finding.suggestion
    assert "line 10, in <module>" in str(case.traceback)


async def test_output_is_captured_beside_a_result(attempts: Attempts) -> None:
    tried = await run(attempts, "import sys\nprint('o')\nsys.stderr.write('e')\nresult: int = 1")

    assert (tried.case.stdout, tried.case.stderr, tried.case.result) == ("o\n", "e", 1)


@pytest.mark.parametrize(
    ("code", "rule", "words", "line"),
    [
        ("total = 1\ndel total\nresult: int = total", "sandbox.name_undefined", "'total' is not defined", 3),
        ("def f():\n    n += 1\nf()\nresult: int = 1", "sandbox.name_unbound", "'n' is read before", 2),
        ("import pandas\nresult: int = 1", "sandbox.module_missing", "no module 'pandas'", 1),
        ("from json import loadz\nresult: int = 1", "sandbox.import_missing", "'json' has no 'loadz'", 1),
        ("import json.nothing\nresult: int = 1", "sandbox.import_missing", "no module 'json.nothing'", 1),
        ("raise NameError('by hand')\nresult: int = 1", "sandbox.raised", "NameError: by hand", 1),
        ("raise ImportError\nresult: int = 1", "sandbox.raised", "ImportError", 1),
        ("limit: int\nresult: int = limit", "sandbox.name_undefined", "'limit' is declared as an input", 2),
        ("import sys\nsys.exit(0)\nresult: int = 1", "sandbox.raised", "SystemExit", 2),
    ],
)  # fmt: skip
async def test_exceptions_are_worded_for_what_they_are(
    attempts: Attempts, code: str, rule: str, words: str, line: int
) -> None:
    tried = await run(attempts, code)

    finding = next(finding for finding in tried.findings if finding.is_error)
    assert (tried.verdict, finding.rule, finding.line) == (Verdict.FAILED, rule, line)
    assert words in finding.message
    assert finding.suggestion


async def test_missing_module_is_named_against_what_is_required(attempts: Attempts) -> None:
    code = "import numpy\nresult: int = numpy.size([1])"

    tried = await attempts.submit("code", {"code": code, "requires": ["numpy", "json"]})

    assert tried.rules == ["inputs.requires", "policy.import", "sandbox.module_missing"]
    assert "listed in requires" in tried.findings[-1].message
    assert "standard library" in tried.findings[-1].message


async def test_endless_code_is_stopped_and_what_it_printed_is_kept(attempts: Attempts) -> None:
    code = "print('begun')\nwhile True: pass\nresult: int = 1"

    tried = await attempts.submit("code", {"code": code}, unit_timeout_s=1)

    assert tried.result is not None
    assert (tried.result.outcome.cause, tried.case.stdout) == (Cause.TIMEOUT, "begun\n")
    assert tried.rules == ["sandbox.timeout"]


async def test_imports_are_free_and_recorded(attempts: Attempts) -> None:
    tried = await run(
        attempts, "import json, socket\nresult: str = json.dumps([eval('1'), list(map(abs, [-1]))])"
    )

    assert (tried.verdict, tried.case.result) == (Verdict.VALIDATED, "[1, [1]]")
    assert tried.result is not None
    seen = {(event.detail, event.allowed) for event in tried.result.units[0].events if event.kind == "import"}
    assert seen == {("json", True), ("socket", False)}


async def test_result_of_another_type_says_what_to_change(attempts: Attempts) -> None:
    tried = await run(attempts, "result: list = {'a': 1}")

    [finding] = tried.findings
    assert (tried.failed_stage, finding.rule, finding.line) == ("result", "result.type", 1)
    assert finding.message == "The result is declared as list, but has the type dict."
    assert finding.suggestion == (
        "Declare the actual type: result: dict. Or convert it: result: list = list(….values()), or […]"
    )
    assert (tried.case.status, tried.case.result) == (CaseStatus.FAILED, {"a": 1})


async def test_result_that_was_never_assigned_is_missing(attempts: Attempts) -> None:
    tried = await run(attempts, "data: list\nfor row in data:\n    result: int = row", data=[])

    assert (tried.failed_stage, tried.rules) == ("result", ["result.missing"])


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("result: int = True", True),
        ("result: float = 1", 1),
        ("result: 'list | None' = None", None),
        ("from typing import Optional\nresult: Optional[str] = 'a'", "a"),
        ("from collections import Counter\nresult: dict = Counter('aa')", {"a": 2}),
        ("from typing import Any\nresult: Any = [1]", [1]),
    ],
)
async def test_result_of_a_type_that_will_do_passes(attempts: Attempts, code: str, value: object) -> None:
    tried = await run(attempts, code)

    assert (tried.verdict, tried.case.result) == (Verdict.VALIDATED, value), tried.findings


async def test_ten_megabytes_go_in_and_five_come_out(attempts: Attempts) -> None:
    rows = [{"id": number, "text": "x" * 1000} for number in range(10_000)]

    tried = await run(
        attempts, "rows: list\nresult: str = ''.join(row['text'] for row in rows[:5_000])", rows=rows
    )

    assert tried.verdict is Verdict.VALIDATED, tried.findings
    assert tried.case.result == "x" * 5_000_000


async def test_result_with_too_many_values_is_no_pass(attempts: Attempts) -> None:
    tried = await run(attempts, "result: list = [0] * 1_100_000")

    assert (tried.verdict, tried.failed_stage, tried.rules) == (Verdict.FAILED, "result", ["result.cut"])


async def test_nothing_is_kept_from_one_node_to_the_next(attempts: Attempts) -> None:
    await run(attempts, "import builtins, json\nbuiltins.kept = json.kept = 1\nresult: int = 1")

    tried = await run(
        attempts, "import builtins, json\nresult: list = [hasattr(m, 'kept') for m in (builtins, json)]"
    )

    assert tried.case.result == [False, False]
