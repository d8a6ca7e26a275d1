"""An approved extractor, or approved rules, on a tree of files: `assay extractor apply` and `drift`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from assayd_client import Document, PlainClient
from support.daemons.daemon_process import DaemonProcess

pytestmark = pytest.mark.engine

CODE = """\
def extract(path: str) -> dict:
    client, year, quarter, name = path.split("/")[-4:]
    if name == "endless.csv":
        while True:
            pass
    if not client.startswith("CLIENT-"):
        return {}
    return {"client": client[7:], "year": int(year), "quarter": int(quarter[1:])}
"""
ENDLESS = """\
def extract(path: str) -> dict:
    year = int(path.split("/")[-3])
    while True:
        pass
    return {"year": year}
"""
RULES = """\
extract:
  client: {from: segment(-4), pattern: 'CLIENT-(.*)'}
  year: {from: segment(-3), type: integer}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for client in ("ABC", "XYZ"):
        for quarter in range(1, 5):
            file = root / f"CLIENT-{client}" / "2024" / f"Q{quarter}" / "report.csv"
            file.parent.mkdir(parents=True)
            file.touch()
    return root


def approved(client: PlainClient, name: str, code: str, paths: list[str]) -> Document:
    attempt = client.submit(
        {"kind": "extractor", "payload": {"code": code, "sample_paths": paths}}, wait_s=60
    )
    assert attempt["verdict"] == "validated", attempt["report"]
    return client.approve(attempt["id"], name)


def samples(tree: Path) -> list[str]:
    return [str(tree / "CLIENT-ABC/2024/Q1/report.csv"), str(tree / "CLIENT-XYZ/2024/Q2/report.csv")]


def lines(file: Path) -> list[Document]:
    return [json.loads(text) for text in file.read_text().splitlines()]


def test_code_is_applied_to_every_file_of_a_tree(
    daemon: DaemonProcess, client: PlainClient, tree: Path, tmp_path: Path
) -> None:
    approved(client, "quarter", CODE, samples(tree))
    (tree / "CLIENT-ABC/2024/Q1/link.csv").symlink_to(tree)
    Path(os.fsdecode(os.fsencode(tree) + b"/CLIENT-ABC/2024/Q1/\xe9.csv")).touch()
    for name in ("Q1/endless.csv", "Qx/report.csv"):
        file = tree / "CLIENT-ABC/2024" / name
        file.parent.mkdir(exist_ok=True)
        file.touch()

    done = daemon.assay("extractor", "apply", "quarter", tree, "--jsonl", tmp_path / "out.jsonl", "--json")

    assert done.returncode == 1, done.stderr
    summary = json.loads(done.stdout)
    counts = {name: summary[name] for name in ("paths", "matched", "empty", "failed", "links")}
    assert counts == {"paths": 11, "matched": 8, "empty": 0, "failed": 3, "links": 1}
    found = {os.path.relpath(one["path"], tree): one for one in lines(tmp_path / "out.jsonl")}
    assert found["CLIENT-XYZ/2024/Q4/report.csv"]["result"] == {"client": "XYZ", "year": 2024, "quarter": 4}
    assert found["CLIENT-ABC/2024/Q1/endless.csv"]["error"]["code"] == "timeout"
    assert found["CLIENT-ABC/2024/Qx/report.csv"]["error"] == {
        "code": "ValueError",
        "message": "invalid literal for int() with base 10: 'x'",
        "line": 8,
    }
    assert found["CLIENT-ABC/2024/Q1/\\xe9.csv"]["error"]["code"] == "path.not_utf8"
    plain = [path for path in found if "\\" not in path]
    assert plain == sorted(plain, key=lambda path: path.split("/"))


def test_interrupted_file_is_continued_after_its_last_whole_line(
    daemon: DaemonProcess, client: PlainClient, tree: Path, tmp_path: Path
) -> None:
    approved(client, "resumed", CODE, samples(tree))
    whole, part = tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    assert daemon.assay("extractor", "apply", "resumed", tree, "--jsonl", whole).returncode == 0
    part.write_bytes(whole.read_bytes()[:500])

    done = daemon.assay("extractor", "apply", "resumed", tree, "--jsonl", part, "--resume", "--json")

    assert done.returncode == 0, done.stderr
    assert part.read_text() == whole.read_text()
    assert json.loads(done.stdout)["paths"] == 8


def test_rules_are_validated_approved_applied_exported_and_compared(
    daemon: DaemonProcess, tree: Path, tmp_path: Path
) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(RULES)
    options = [word for path in samples(tree) for word in ("--sample-path", path)]
    assert daemon.assay("validate", "extractor", file, *options).returncode == 0
    assert daemon.assay("library", "approve", "last", "ruled").returncode == 0
    file.write_text(RULES + "  quarter: {from: segment(-2), pattern: 'Q(.)'}\n")
    assert daemon.assay("validate", "extractor", file, *options).returncode == 0
    assert daemon.assay("library", "approve", "last", "ruled").returncode == 0

    applied = daemon.assay("extractor", "apply", "ruled", tree, "--jsonl", "-")
    exported = daemon.assay("library", "export", "ruled@1", "--out", tmp_path / "exported.yaml")
    difference = daemon.assay("library", "diff", "ruled")

    assert json.loads(applied.stdout.splitlines()[0])["result"] == {
        "client": "ABC",
        "year": 2024,
        "quarter": "1",
    }
    assert (exported.returncode, (tmp_path / "exported.yaml").read_text()) == (0, RULES)
    assert "+  quarter: {from: segment(-2), pattern: 'Q(.)'}" in difference.stdout


def test_three_new_shapes_are_drift_and_begin_a_repair(
    daemon: DaemonProcess, client: PlainClient, tree: Path
) -> None:
    approved(client, "drifting", CODE, samples(tree))
    assert daemon.assay("extractor", "drift", "drifting", tree).returncode == 0
    for name in ("new/2025/a.json", "flat/d/e/x-y.parquet", "CLIENT-ABC/24/Q1/report.csv/v2/d/e/part"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()

    done = daemon.assay("extractor", "drift", "drifting", tree, "--repair", "rules", "--json")

    assert done.returncode == 1, done.stderr
    change = json.loads(done.stdout)
    assert (len(change["new_shapes"]), change["drift"]) == (3, round(3 / 11, 4))
    begun = client.attempt(change["repair"]["attempt_id"])
    assert begun["verdict"] == "failed"
    assert client.repairs_of(begun["id"])["repairs"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("apply", "absent", "."), "absent"),
        (("apply", "refused", "/nowhere"), "/nowhere: no such folder"),
        (("apply", "refused", __file__), "not a folder"),
        (("apply", "refused", "EMPTY"), "contains no files"),
        (("apply", "refused", ".", "--resume"), "--resume continues an output file"),
        (("apply", "refused", ".", "--jsonl", "out.jsonl"), "name a file outside it"),
        (("apply", "refused@0", "."), "NAME@VERSION"),
        (("drift", "refused", ".", "--threshold", "2"), "threshold"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    daemon: DaemonProcess, client: PlainClient, tree: Path, tmp_path: Path, arguments, message: str
) -> None:
    approved(client, "refused", CODE, samples(tree))
    (tmp_path / "empty").mkdir()
    words = [str(tmp_path / "empty") if word == "EMPTY" else word for word in arguments]

    done = daemon.assay("extractor", *words)

    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not Path("out.jsonl").exists()


def test_accepted_rules_of_a_repair_are_validated_like_code(
    daemon: DaemonProcess, client: PlainClient, tree: Path
) -> None:
    payload = {"code": ENDLESS, "sample_paths": samples(tree)[:1]}
    document = {"kind": "extractor", "payload": payload, "overrides": {"resources": {"unit_timeout_s": 1}}}
    attempt = client.submit({**document, "repair": {"provider": "rules"}}, wait_s=60)
    (begun,) = client.repairs_of(attempt["id"])["repairs"]
    list(client.repair_events(begun["id"]))

    accepted = client.accept_fallback(begun["id"])

    validated = client.attempt(accepted["fallback"]["attempt_id"], wait_s=60)
    assert (validated["verdict"], validated["parent_id"]) == ("validated", attempt["id"])
    assert client.approve(validated["id"], "accepted")["version"] == 1
