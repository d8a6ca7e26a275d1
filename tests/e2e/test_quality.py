"""Passes that are worth nothing, from the submission to the report and the retry context."""

from __future__ import annotations

import pytest

from assayd_client import Document, PlainClient
from support.daemons.daemon_process import DaemonProcess

pytestmark = pytest.mark.engine

PATHS = ["/data/CLIENT-ABC/2024/Q1/report.csv", "/data/CLIENT-XYZ/2023/Q3/report.csv"]
MANIFEST = {
    "module_id": "shop/rates",
    "version": "1.0.0",
    "category": "shop",
    "platform": "rates",
    "entrypoint": "RatesAdapter",
    "capabilities": ["current"],
}
ADAPTER = """
from assayd_adapter import Adapter, register_adapter


@register_adapter(category="shop", platform="rates")
class RatesAdapter(Adapter):
    async def fetch_raw(self, base="EUR"):
        return {"base": base, "rates": {"USD": 1.1}}

    def transform(self, raw):
        return {"base": raw["base"], "count": len(raw["rates"])}

    def get_schema(self):
        return {"type": "object"}
"""
TESTS = """
from adapter import RatesAdapter


def test_transform():
    RatesAdapter().transform({"base": "EUR", "rates": {}})
"""
PIPELINE = {
    "database": {"schema_sql": "CREATE TABLE t (a); INSERT INTO t VALUES (1);"},
    "files": {"data/sales.csv": "id,amount\n1,5\n2,7\n"},
    "steps": [
        {"name": "find", "type": "bash", "content": "grep nowhere data/sales.csv > data/found.csv || true\n"},
        {"name": "sort", "type": "bash", "content": "sort data/sales.csv > tmp/sorted.csv\n"},
        {"name": "mend", "type": "sql", "content": "UPDATE t SET a = 2 WHERE a = 7;\n"},
    ],
}


def extractor(code: str) -> Document:
    return {"kind": "extractor", "payload": {"code": code, "sample_paths": PATHS}}


HARD_CODED = extractor(
    'def extract(path: str) -> dict:\n    return {"client": "CLIENT-ABC", "year": path.split("/")[3]}\n'
)
WORTHLESS = {
    "extractor": (HARD_CODED, {"quality.hard_coded"}),
    "code": (
        {
            "kind": "code",
            "payload": {
                "code": "import random\nrows: list\nlimit: int\n"
                "result: float = random.random() + len(rows)\n",
                "inputs": {"rows": [1], "limit": 2},
            },
        },
        {"quality.unread_input", "quality.varying"},
    ),
    "module": (
        {
            "kind": "module",
            "payload": {"manifest": MANIFEST, "files": {"adapter.py": ADAPTER, "test_adapter.py": TESTS}},
        },
        {"quality.no_assertion", "quality.untested_method"},
    ),
    "pipeline": (
        {"kind": "pipeline", "payload": PIPELINE},
        {"quality.empty_output", "quality.unused_result", "quality.no_rows"},
    ),
}


def submit(daemon: DaemonProcess, submission: Document) -> Document:
    with PlainClient(daemon.socket) as client:
        return client.submit(submission, wait_s=60)


def warnings(attempt: Document) -> set[str]:
    return {one["rule"] for one in attempt["report"]["findings"] if one["severity"] == "warning"}


@pytest.mark.parametrize("kind", WORTHLESS)
def test_a_worthless_pass_is_validated_with_warnings_that_a_model_can_read(
    daemon: DaemonProcess, kind: str
) -> None:
    submission, expected = WORTHLESS[kind]

    attempt = submit(daemon, submission)

    assert attempt["verdict"] == "validated"
    assert warnings(attempt) == expected
    told = attempt["report"]["retry_context"]
    assert told.startswith("The submission passed")
    assert all(rule in told for rule in expected)


def test_a_good_pass_has_neither_warnings_nor_a_retry_context(daemon: DaemonProcess) -> None:
    code = 'def extract(path: str) -> dict:\n    return {"client": path.split("/")[2], "kind": "quarterly"}\n'

    attempt = submit(daemon, extractor(code))

    assert (attempt["verdict"], warnings(attempt)) == ("validated", set())
    assert attempt["report"]["retry_context"] is None


@pytest.mark.parametrize(
    "other",
    ["raise ValueError(path)", "while True: pass", "print('seen'); import json; return {'x': 'y' * 10**9}"],
)
def test_what_happens_on_a_similar_path_changes_neither_verdict_nor_cases(
    daemon: DaemonProcess, other: str
) -> None:
    code = f"""
import json

def extract(path: str) -> dict:
    if path not in {PATHS!r}:
        {other}
    return {{"client": path.split("/")[2]}}
"""

    attempt = submit(daemon, extractor(code))

    assert attempt["verdict"] == "validated", attempt["report"]["findings"]
    cases = attempt["report"]["runtime_results"]["cases"]
    assert [(case["name"], case["status"], case["stdout"]) for case in cases] == [
        (path, "passed", "") for path in PATHS
    ]
    assert attempt["execution"]["cause"] == "completed"
