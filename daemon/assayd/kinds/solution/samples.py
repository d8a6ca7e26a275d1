"""The self-test samples of the kind `solution`."""

from __future__ import annotations

from assayd.model.submission import Sample

_GOOD = "def double(values):\n    return [2 * value for value in values]\n"
_CHECK = "def check(candidate):\n    assert candidate([1, 2]) == [2, 4]\n    assert candidate([]) == []\n"
_CASES = [{"name": "two", "args": [[1, 2]], "expected": [2, 4]}]


def _build_sample(
    name: str, *rules: str, code: str = _GOOD, verdict: str = "failed", runs: bool = True, **more: object
) -> Sample:
    tests = {} if "cases" in more else {"tests": _CHECK}
    return Sample(
        name=name,
        payload={"code": code, "entry_point": "double", **tests, **more},
        verdict=verdict,
        rules=frozenset(rules),
        needs_container=runs,
        unit_timeout_s=1.0 if name == "endless" else None,
    )


SAMPLES = (
    _build_sample("good", verdict="validated"),
    _build_sample(
        "asserts", tests=["assert double([3]) == [6]", "assert double([]) == []"], verdict="validated"
    ),
    _build_sample("cases", cases=_CASES, verdict="validated"),
    _build_sample("wrong", "solution.test_failed", code="def double(values):\n    return values\n"),
    _build_sample(
        "equals_everything",
        "solution.test_failed",
        code="class All:\n    def __eq__(self, _): return True\n\ndef double(values):\n    return All()\n",
    ),
    _build_sample("leaves", "solution.test_failed", code="import os\ndef double(values):\n    os._exit(0)\n"),
    _build_sample("endless", "solution.test_failed", code="def double(values):\n    while True: pass\n"),
    _build_sample("raises", "sandbox.raised", code="raise RuntimeError('no')\ndef double(values): ...\n"),
    _build_sample(
        "revealed", "solution.not_comparable", code="def double(values):\n    return object()\n", reveal="all"
    ),
    _build_sample("no_entry", "entry_point.missing", code="def triple(values): ...\n", runs=False),
    _build_sample("syntax", "syntax.missing_colon", code="def double(values)\n    return 1\n", runs=False),
    _build_sample("tests_syntax", "tests.syntax", tests="assert double([1]) = [2]", runs=False),
    _build_sample("no_tests", "tests.missing", tests="limit = 3\n", runs=False),
)
