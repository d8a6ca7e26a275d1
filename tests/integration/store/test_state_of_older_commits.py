"""Today's daemon on state directories that daemons of older commits left when they were killed.

tests/fixtures/upgrades/make.py made them, and wrote down what a client of that time was told.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.daemons.daemon_process import DaemonProcess
from support.engines.oci import needs_oci

pytestmark = needs_oci

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures/upgrades"
COMMITS = sorted(path.stem for path in FIXTURES.glob("*.json"))
FOREVER = {"RETENTION__DAYS": "36500", "POOL__DEFAULT_TARGET": "0"}
"""The attempts grow older than any retention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """A daemon on an old state, and the answers that clients got before."""

    daemon: DaemonProcess
    told: Any

    def get(self, target: str) -> Any:
        with self.daemon.http() as http:
            answer = http.get(target)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module", params=COMMITS)
def upgraded(request: pytest.FixtureRequest) -> Iterator[Upgraded]:
    daemon = DaemonProcess("oci", settings=FOREVER)
    with tarfile.open(FIXTURES / f"{request.param}.tar.xz") as tar:
        tar.extractall(daemon.home, filter="fully_trusted")
    try:
        daemon.start()
        yield Upgraded(daemon=daemon, told=json.loads((FIXTURES / f"{request.param}.json").read_text()))
    finally:
        daemon.dispose()


def test_there_is_a_state_of_each_commit() -> None:
    assert COMMITS == ["5babe063", "bdcfb34a"]
    assert all(path.stat().st_size < 2**20 for path in FIXTURES.iterdir())


def test_old_attempts_keep_their_verdicts(upgraded: Upgraded) -> None:
    listed = upgraded.get("/v1/attempts?limit=100")["attempts"]

    found = {one["id"]: (one["kind"], one["verdict"]) for one in listed}
    wanted = {name: (one["kind"], one["verdict"]) for name, one in upgraded.told["attempts"].items()}
    assert {name: found.get(name) for name in wanted} == wanted


def test_old_bundles_are_served_and_match_their_digests(upgraded: Upgraded) -> None:
    with upgraded.daemon.http() as http:
        for name, told in upgraded.told["attempts"].items():
            listed = http.get(f"/v1/attempts/{name}/artifacts").json()["artifacts"]
            assert sorted(one["name"] for one in listed) == told["artifacts"]
            for one in listed:
                content = http.get(f"/v1/attempts/{name}/artifacts/{one['name']}").content
                assert hashlib.sha256(content).hexdigest() == one["sha256"]


def test_old_reports_are_shown(upgraded: Upgraded) -> None:
    for name, told in upgraded.told["attempts"].items():
        shown = upgraded.daemon.assay("show", name)
        mark = "✓ Passed" if told["verdict"] == "validated" else "✗ Failed"
        assert (shown.returncode, shown.stderr) == (0, "")
        assert mark in shown.stdout


def test_old_repairs_and_pipelines_are_shown(upgraded: Upgraded) -> None:
    repairs = {one["id"]: one["outcome"] for one in upgraded.get("/v1/repairs")["repairs"]}
    shown = upgraded.daemon.assay("pipeline", "list", "--json")

    assert repairs == upgraded.told["repairs"]
    pipelines = {one["id"]: one["status"] for one in json.loads(shown.stdout)["pipelines"]}
    assert pipelines == {one["id"]: one["status"] for one in upgraded.told["pipelines"]["pipelines"]}


def test_old_library_is_kept_and_an_old_attempt_can_be_approved(upgraded: Upgraded, tmp_path: Path) -> None:
    before = upgraded.told["library"]["entries"] if upgraded.told["library"] else []
    entries = json.loads(upgraded.daemon.assay("library", "list", "--json").stdout)["entries"]
    found = [(one["name"], one["version"], one["digest"]) for one in entries]
    assert found == [(one["name"], one["version"], one["digest"]) for one in before]

    approved = upgraded.daemon.assay("library", "approve", upgraded.told["labelled"], "newer")
    assert approved.returncode == 0, approved.stderr
    for name in ("newer", *(one["name"] for one in before)):
        exported = upgraded.daemon.assay("library", "export", name, "--out", tmp_path / name)
        assert exported.returncode == 0, exported.stderr
        assert "def extract" in (tmp_path / name).read_text()


def test_old_labels_are_found(upgraded: Upgraded) -> None:
    listed = upgraded.get("/v1/attempts?label=category%3Dreports")["attempts"]

    assert upgraded.told["labelled"] in {one["id"] for one in listed}


def test_old_attempt_is_replayed(upgraded: Upgraded) -> None:
    done = upgraded.daemon.assay("replay", upgraded.told["labelled"])

    assert "validated before, validated now" in done.stdout, done.stdout + done.stderr


def test_new_attempts_and_batches_are_accepted(upgraded: Upgraded, tmp_path: Path) -> None:
    code = "def extract(path: str) -> dict:\n    return {'b': path}\n"
    submission = {"kind": "extractor", "payload": {"code": code, "sample_paths": ["/a/b.csv"]}}
    (tmp_path / "lines.jsonl").write_text(f"{json.dumps(submission)}\n")

    with upgraded.daemon.client() as client:
        attempt = client.submit(submission, wait_s=60)
    batch = upgraded.daemon.assay("batch", "run", tmp_path / "lines.jsonl", "--name", "new")

    assert attempt["verdict"] == "validated"
    assert batch.returncode == 0, batch.stderr
