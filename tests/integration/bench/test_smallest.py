"""Each benchmark script, with the smallest possible workload."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.cluster.broker import needs_broker
from support.daemons.compat import compat_on
from support.daemons.console import needs_browser
from support.daemons.daemon_process import DaemonProcess
from support.engines.oci import IMAGES, ROOT, needs_oci
from support.stores.postgres import needs_postgres

pytestmark = needs_oci

AT_ONCE = 4
FUNCTION = "def extract(path: str) -> dict:\n    return {'a': path}\n"
STEP = {
    "name": "a",
    "kind": "pipeline",
    "payload": {"steps": [{"name": "s", "type": "bash", "content": "pwd"}]},
}
GATHERED = {
    "extractors": [{"name": "a", "code": FUNCTION}],
    "adapters": [{"name": "b", "text": "import json\n"}],
}
HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": "def add(a, b):\n",
    "canonical_solution": "    return a + b\n",
    "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
    "entry_point": "add",
}
PEERS_TEST = """\
import httpx
from sandbox.server.server import app

async def test_python_prints():
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://peer") as client:
        answer = await client.post("/run_code", json={"code": "print(1)", "language": "python"})
    assert answer.json()["run_result"]["stdout"] == "1\\n"
"""
PEERS_CLIENT = """\
import json, urllib.request
from types import SimpleNamespace

def set_sandbox_endpoint(url):
    global endpoint
    endpoint = url

def RunCodeRequest(code, language):
    return {"code": code, "language": language}

def run_code(asked):
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(endpoint + "/run_code", json.dumps(asked).encode(), headers)
    answer = json.load(urllib.request.urlopen(request))
    return SimpleNamespace(run_result=SimpleNamespace(**answer["run_result"]))

def run_concurrent(function, args, concurrency):
    return [function(*one) for one in args]
"""
"""Stands in for the peer's package, which the environment of the tests has not."""


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    made = DaemonProcess("oci", settings={"POOL__DEFAULT_TARGET": "1"})
    try:
        made.start()
        yield made
    finally:
        made.dispose()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with input for the scripts whose input isn't in the project."""
    (tmp_path / "gathered.json").write_text(json.dumps(GATHERED))
    (tmp_path / "steps.jsonl").write_text(f"{json.dumps(STEP)}\n")
    one = {"name": "a", "code": FUNCTION, "sample_paths": ["/a/b"], "expected": [{"a": "/a/b"}]}
    (tmp_path / "functions.jsonl").write_text(f"{json.dumps(one)}\n")
    (tmp_path / "humaneval.jsonl").write_text(f"{json.dumps(HUMANEVAL)}\n")
    return tmp_path


REPOSITORY = {
    "LICENSE": "Permission is hereby granted, free of charge, to any person",
    "page.md": "```bash\necho 1 | tr 1 2\n```\n\n```bash\nfalse\n```\n",
    "a.sql": "CREATE TABLE IF NOT EXISTS t (a);\nINSERT INTO t VALUES (1);\n",
    "paths.py": "import re\n\ndef folder(path):\n    return re.sub(r'/[^/]*$', '', path)\n",
    "numbers.py": 'def twice(n: int) -> int:\n    """\n    >>> twice(2)\n    4\n    """\n    return 2 * n\n',
    "api.py": "import requests\n\ndef fetch(url, **more):\n    return requests.get(url, **more)\n",
}
"""A repository with one item of each type."""


def run(place: Path, script: str, *words: object, **variables: str) -> str:
    """Run a script until it ends; it writes its figures into a folder of the test."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY")}
    environment |= {
        "ASSAYD_ENGINE__KIND": "oci",
        "ASSAYD_ENGINE__IMAGES_DIR": str(IMAGES),
        "BENCH_RESULTS": str(place),
        "BENCH_PAGES": str(place),
        "BENCH_ROUGH": "1",
        "ASSAYD_ANALYSIS__WORKERS": "1",
        "ASSAYD_POOL__DEFAULT_TARGET": "1",
        **variables,
    }
    command = [sys.executable, "-m", script, *map(str, words)]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.system  # 60 attempts, which tell about the benchmark's cases alone
def test_every_broken_submission_is_broken_today(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from bench.repair.cases import Case, load

    with daemon.client() as client, ThreadPoolExecutor(AT_ONCE) as workers:

        def verdict(one: Case) -> tuple[str, str]:
            attempt = client.submit(one.submission(one.broken), wait_s=120)
            return f"{one.kind}/{one.name}", attempt["verdict"]

        verdicts = list(workers.map(verdict, load()))

    assert [name for name, verdict in verdicts if verdict != "failed"] == []


def test_what_needs_no_daemon(place: Path) -> None:
    assert "repair" in run(place, "bench.prompts")
    assert "hints: " in run(place, "bench.shell_rules")
    assert "definitions" in run(place, "bench.scaling", "fifth", "--cap", 4096)
    run(place, "bench.generate.readers", place / "readers")
    assert list((place / "readers").glob("*.prompt.txt"))
    assert "--writer" in run(place, "bench.generate.by_hand", "--help")  # people answer it
    run(place, "bench.chart", BENCH_RESULTS=str(ROOT / "bench/results"))
    assert (place / "performance.md").is_file()


def test_files_executed(place: Path) -> None:
    told = run(place, "bench.files_executed")

    assert "assayd/attempts" in told
    assert "assayd/static/python" in told
    assert 100 < int(told.split()[-2]) < 145


def test_repairs(place: Path) -> None:
    told = run(place, "bench.repair.run", "--most", 1)

    assert 'scripted {"total": 7, "repaired": 7' in told
    assert json.loads((place / "repair.json").read_text())["cheating"]["false_repairs"] == 4


def test_generations(place: Path) -> None:
    run(place, "bench.generate.run", "--most", 1, "--kind", "extractor")

    found = json.loads((place / "generate.json").read_text())
    assert found["providers"]["right"]["total"] == 1


def test_recorded_answers(place: Path) -> None:
    run(place, "bench.generate.replay", "--most", 1, "weak")

    assert (place / "answers.json").is_file()


def test_cost_of_quality_checks(place: Path) -> None:
    assert "cost" in run(place, "bench.slips.cost", "--count", 1, "--rounds", 1)


def test_slips(place: Path) -> None:
    run(place, "bench.slips.run", 2)

    assert json.loads((place / "slips.json").read_text())["total"] >= 1


def test_hints_by_kind(place: Path, daemon: DaemonProcess) -> None:
    assert "bash" in run(
        place, "bench.slips.measure", "--socket", daemon.socket, "--half", "seen", "--set", "bash"
    )


def test_reports_for_readers(place: Path, daemon: DaemonProcess) -> None:
    run(place, "bench.hints.run", daemon.socket, place / "texts", "missing_colon")

    assert (place / "texts").is_dir()


def test_gathered_code(place: Path, daemon: DaemonProcess) -> None:
    assert "extractor: 1 of 1" in run(place, "bench.real.python", place / "gathered.json")
    assert "1 of 1 validated" in run(
        place, "bench.real.shell", place / "steps.jsonl", "--socket", daemon.socket
    )
    assert "1 of 1 validated" in run(
        place, "bench.real.functions", place / "functions.jsonl", "--socket", daemon.socket
    )


def test_gathering_drawn_by_rule(place: Path, daemon: DaemonProcess) -> None:
    repository = place / "mirrors" / "owner+name" / "repo"
    repository.mkdir(parents=True)
    for name, text in REPOSITORY.items():
        (repository / name).write_text(text)
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "m"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    drawn = place / "drawn.jsonl"
    run(place, "bench.real.halves", "draw", place / "mirrors", IMAGES, drawn)

    items = [json.loads(line) for line in drawn.read_text().splitlines()]
    assert sorted(item["type"] for item in items) == ["bash", "code", "extractor", "module", "sql"]
    assert {item["license"] for item in items} == {"MIT"}
    assert "MIT bash owner/name:page.md#1" in run(place, "bench.real.halves", "sources", drawn)
    judged = run(place, "bench.real.halves", "rules", drawn)
    tried = run(place, "bench.real.halves", "try", drawn, daemon.socket)
    assert (judged.count(": 1 of 1; "), tried.count(": 1 of 1; ")) == (9, 9), judged + tried


def test_costs_of_parts(place: Path, daemon: DaemonProcess) -> None:
    assert "extractor" in run(place, "bench.accounting", "--count", 2, "--only", "extractor")
    assert "cli_help_cpu_ms" in run(place, "bench.client", daemon.socket, 1)


def test_tree_of_files(place: Path, daemon: DaemonProcess) -> None:
    told = json.loads(run(place, "bench.trees", "--paths", 1500, "--socket", daemon.socket))

    assert told["paths"] == 1500
    assert told["paths_per_s"] > 0


def test_floods(place: Path) -> None:
    assert "quiet" in run(
        place, "bench.analysis_flood", "--attempts", 1, "--seconds", 1, "--shape", "comments"
    )
    assert "chunks" in run(place, "bench.relay_flood", "--attempts", 1, "--seconds", 1, "--ways", "chunks")
    assert "peak" in run(place, "bench.memory", "keys")


def test_hidden_tests(place: Path) -> None:
    tasks = ["--humaneval", place / "humaneval.jsonl"]
    assert "1 of 1 validated" in run(place, "bench.hidden_tests", "references", *tasks)
    assert "ratio" in run(place, "bench.hidden_tests", "cost", "--rounds", 1, *tasks)
    assert '"lost": 0' in run(place, "bench.hidden_tests", "rewards", "--answers", 4)


def test_cheats(place: Path) -> None:
    run(place, "bench.cheats", "--most", 1)

    assert (place / "cheats.svg").is_file()
    run(place, "bench.cheats", "--draw")


def test_workflows(place: Path) -> None:
    printed = run(place, "bench.workflows", "--nodes", 4, "--parallel", 2, "--rounds", 1)

    assert "4 nodes, 2 in parallel, 1 rounds" in printed
    assert "ratio" in printed


def test_console_trial(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from bench.console_trial import ITEMS, PATHS, PLANTED

    printed = run(place, "bench.console_trial", "--once")

    counts, tasks = printed.partition("nightly-sales: ")[2].split("\n", 1)
    assert all(path in tasks for path in PATHS)
    assert json.loads(counts) == {
        "total": ITEMS,
        "validated": ITEMS - sum(PLANTED.values()),
        "failed": sum(PLANTED.values()),
        "error": 0,
    }


@needs_browser
def test_console(place: Path) -> None:
    run(place, "bench.console", 100, 1)

    assert json.loads((place / "console.json").read_text())["attempts"] == 100


@needs_broker
@needs_postgres
def test_cluster(place: Path) -> None:
    assert "| 1 |" in run(place, "bench.cluster", "--nodes", 1, "--attempts", 16, "--clients", 2)
    seen = json.loads(run(place, "bench.cluster_load", "--nodes", 1, "--attempts", 16))
    assert seen["attempts_per_s"] > 0
    assert seen["refused"] == 0


def test_peers_tests_and_client(place: Path, daemon: DaemonProcess) -> None:
    for name, text in {
        "sandbox/tests/runners/test_python.py": PEERS_TEST,
        "sandbox/runners/types.py": "",
        "sandbox/server/sandbox_api.py": "",
        "client/sandbox_fusion.py": PEERS_CLIENT,
    }.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    with compat_on(daemon.socket, {}) as url:
        assert "  1 passed" in run(place, "bench.compat", place, "--url", url, "python")
        load = run(
            place,
            "bench.compat_load",
            url,
            *("--rounds", 1, "--programs", 2),
            PYTHONPATH=str(place / "client"),
            ASSAY_SOCKET=str(daemon.socket),
        )
    assert "sandbox-fusion" in load


def test_egress(place: Path, docker_host: str) -> None:
    assert "down" in run(place, "bench.egress", DOCKER_HOST=docker_host)


@pytest.mark.system  # it takes three minutes
def test_whole_benchmark(place: Path, docker_host: str) -> None:
    run(place, "bench.run", "--smallest", DOCKER_HOST=docker_host)

    assert json.loads((place / "latest.json").read_text())["figures"]["oci_throughput_per_s"] > 0


def test_messages_beside_those_of_other_tools(place: Path, daemon: DaemonProcess) -> None:
    folder = place / "pairs"
    run(place, "bench.hints.blind", "draw", daemon.socket, folder, "--each", 1)
    key = json.loads((folder / "key.json").read_text())
    (folder / "answers").write_text("".join(f"{number} {told['ours']}\n" for number, told in key.items()))

    assert "all: 3 won, 0 ties, 0 lost (100 % won or tied)" in run(
        place, "bench.hints.blind", "score", folder, folder / "answers"
    )


def test_fixes_that_a_reader_names(place: Path, daemon: DaemonProcess) -> None:
    folder = place / "action"
    run(place, "bench.hints.action", "draw", daemon.socket, folder, "--only", "missing_import_json")
    (folder / "judged").write_text("1 right\n")

    assert "import json" in (folder / "sheet.md").read_text()
    assert "1 of 1 right" in run(place, "bench.hints.action", "score", folder, folder / "judged")
