"""Worthless passes, from the submission to the report and the retry context."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from assayd_client import Document, PlainClient
from support.daemons.chosen import new_daemon
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
        return client.submit(submission, wait_s=300)


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


COUNTING = """
from assayd_adapter import Adapter, register_adapter


@register_adapter(category="shop", platform="rates")
class RatesAdapter(Adapter):
    def fetch_raw(self, base="EUR"):
        count = 0
        while count < 5:
            count += 2
        return {"base": base, "count": count}

    def transform(self, raw):
        if raw["count"] < 0:
            raise ValueError("less than nothing")
        return {"base": raw["base"], "double": raw["count"] * 2}

    def get_schema(self):
        return {"type": "object"}
"""
GOOD_TESTS = """
import pytest
from adapter import RatesAdapter


def test_fetch():
    assert RatesAdapter().fetch_raw("USD") == {"base": "USD", "count": 6}


def test_transform():
    assert RatesAdapter().transform({"base": "EUR", "count": 3}) == {"base": "EUR", "double": 6}
    with pytest.raises(ValueError, match="nothing"):
        RatesAdapter().transform({"base": "EUR", "count": -1})


def test_schema():
    assert RatesAdapter().get_schema() == {"type": "object"}
"""
WEAK_TESTS = """
from adapter import RatesAdapter


def test_all():
    adapter = RatesAdapter()
    raw = adapter.fetch_raw("USD")
    assert "double" in adapter.transform(raw) or raw
    assert adapter.get_schema() is not raw
"""


@pytest.fixture(scope="module")
def trying_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """Return a daemon with profiles that try 12 mutants; in one, too few kills are an error."""
    folder: Path = tmp_path_factory.mktemp("policies")
    tried = 'extends = "module_validation"\n[quality]\nmutants = 12\n'
    (folder / "tried.toml").write_text(tried)
    (folder / "strict.toml").write_text(f'{tried}[quality.rules]\n"quality.mutants" = "error"\n')
    settings = {"POLICY_FOLDERS": json.dumps([str(folder)]), "POOL__DEFAULT_TARGET": "0"}
    made = new_daemon("oci", settings=settings)
    try:
        made.start()
        yield made
    finally:
        made.dispose()


def tried(daemon: DaemonProcess, tests: str, policy: str) -> Document:
    files = {"adapter.py": COUNTING, "test_adapter.py": tests}
    return submit(
        daemon, {"kind": "module", "policy": policy, "payload": {"manifest": MANIFEST, "files": files}}
    )


def about_changes(attempt: Document) -> Document:
    (found,) = (one for one in attempt["report"]["findings"] if one["rule"] == "quality.mutants")
    return found


def test_good_tests_notice_changes_also_one_that_never_ends(trying_daemon: DaemonProcess) -> None:
    attempt = tried(trying_daemon, GOOD_TESTS, "tried")

    assert (attempt["verdict"], warnings(attempt)) == ("validated", set())
    found = about_changes(attempt)
    assert found["severity"] == "info"
    noticed, of = map(int, found["message"].removeprefix("The tests notice ").split()[:3:2])
    assert (noticed >= 11, of) == (True, 12)
    assert [case["status"] for case in attempt["report"]["runtime_results"]["cases"]] == ["passed"] * 3


def test_tests_that_notice_little_get_a_warning_with_the_lines(trying_daemon: DaemonProcess) -> None:
    attempt = tried(trying_daemon, WEAK_TESTS, "tried")

    assert (attempt["verdict"], warnings(attempt)) == ("validated", {"quality.mutants"})
    found = about_changes(attempt)
    assert found["line"] is not None
    assert "No test fails if line" in found["suggestion"]
    assert "quality.mutants" in attempt["report"]["retry_context"]


def test_a_profile_can_fail_a_module_for_tests_that_notice_little(trying_daemon: DaemonProcess) -> None:
    attempt = tried(trying_daemon, WEAK_TESTS, "strict")

    assert attempt["verdict"] == "failed"
    assert about_changes(attempt)["severity"] == "error"
    assert attempt["execution"]["cause"] == "completed"
