"""The self-test samples of the kind `script`."""

from __future__ import annotations

from assayd.model.submission import Sample

_WRITES = """
import csv
import sys

rows = [line.split() for line in sys.stdin]
with open("out.csv", "w", newline="") as file:
    csv.writer(file).writerows(rows)
print(len(rows), "rows")
"""
_OF_OUR_PYTHON = ["python3.11", "main.py"]


def _build_sample(
    name: str, *rules: str, verdict: str = "failed", runs: bool = True, **payload: object
) -> Sample:
    return Sample(
        name=name,
        payload=payload,
        verdict=verdict,
        rules=frozenset(rules),
        needs_container=runs,
        own_image=payload.get("argv") == _OF_OUR_PYTHON,
    )


SAMPLES = (
    _build_sample("good", code=_WRITES, stdin="a 1\nb 2\n", collect=["out.csv"], verdict="validated"),
    _build_sample(
        "good_files",
        files={"main.py": "import helper\nhelper.greet()\n", "helper.py": "def greet(): print('hello')\n"},
        argv=_OF_OUR_PYTHON,
        verdict="validated",
    ),
    _build_sample("exits", code="import sys\nsys.exit(0)\n", verdict="validated"),
    _build_sample("syntax", "syntax.missing_colon", code="for n in range(3)\n    print(n)\n", runs=False),
    _build_sample("path", "path.invalid", code="print(1)\n", collect=["../out.csv"], runs=False),
    _build_sample("raised", "sandbox.raised", code="print(1 / 0)\n"),
    _build_sample("undefined", "sandbox.name_undefined", code="print(json.dumps({}))\n"),
    _build_sample("no_module", "sandbox.module_missing", code="import acme_reports\n"),
    _build_sample("status", "sandbox.exited_nonzero", code="raise SystemExit(3)\n"),
    _build_sample("endless", "sandbox.timeout", code="while True: pass\n"),
    _build_sample(
        "leaves",
        "sandbox.left_processes",
        code="import os, signal\nif os.fork() == 0:\n    os.setsid()\n    signal.pause()\n",
    ),
    _build_sample("no_program", "sandbox.not_executed", argv=["no-such-program"]),
    _build_sample("not_written", "collect.missing", code="print('done')\n", collect=["out.csv"]),
)
