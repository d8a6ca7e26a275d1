"""The kind `ini` of tests/plugins in a real daemon has every feature of a built-in kind."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from assayd_client import ClientError, Document, PlainClient
from support.daemons.chosen import new_daemon
from support.daemons.daemon_process import DaemonProcess
from support.texts.ini_kind import FIELDS, GOOD, environment, install, submission

pytestmark = pytest.mark.engine

DOCTOR_S = 300
"""It runs the samples of all kinds."""
BROKEN = GOOD.replace("port = 8080", "port 8080")


@pytest.fixture(scope="module")
def daemon(one_engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = install(tmp_path_factory.mktemp("ini"))
    settings = {"VALIDATORS": '["ini"]', "POOL__DEFAULT_TARGET": "1", "CAPS__SOURCE_BYTES": "4096"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(folder).items():
            patch.setenv(name, value)
        made = new_daemon(one_engine, settings=settings)
        try:
            made.start()
            yield made
        finally:
            made.dispose()


@pytest.fixture
def client(daemon: DaemonProcess) -> Iterator[PlainClient]:
    with daemon.client() as client:
        yield client


def attempt(client: PlainClient, document: dict[str, object]) -> Document:
    return client.submit(document, wait_s=60)


def rules(attempt: Document) -> set[str]:
    return {finding["rule"] for finding in attempt["report"]["findings"]}


def test_file_is_validated_in_a_container_and_has_a_bundle(
    client: PlainClient, daemon: DaemonProcess
) -> None:
    done = attempt(client, submission())

    assert done["verdict"] == "validated"
    assert [stage["name"] for stage in done["report"]["stages"]] == ["syntax", "fields"]
    assert [case["result"] for case in done["report"]["runtime_results"]["cases"]] == [
        "example",
        "/var/log/example",
        "8080",
    ]
    names = {path.name.partition("_")[0] for path in daemon.bundle(done).iterdir()}
    assert {"submission", "validation", "execution", "junit", "manifest.json"} <= names


def test_wrong_files_fail_by_reading_and_by_running(client: PlainClient) -> None:
    assert rules(attempt(client, submission(BROKEN))) == {"ini.no_value"}
    assert rules(attempt(client, submission(GOOD.replace("8080", "many")))) == {"ini.type"}


def test_batch_has_a_verdict_for_each_line(client: PlainClient) -> None:
    lines = [json.dumps(line).encode() + b"\n" for line in (submission(), submission(BROKEN))]
    batch = client.send_batch(lines, name="ini-files")
    for event in client.batch_events(batch["id"]):
        if event.kind == "finished":
            break
    verdicts = [item["attempt"]["verdict"] for item in client.batch_results(batch["id"])]
    assert verdicts == ["validated", "failed"]


def test_certain_edit_repairs_a_file(client: PlainClient) -> None:
    failed = attempt(client, submission(BROKEN, repair={"provider": "rules"}))
    (repair,) = client.repairs_of(failed["id"])["repairs"]
    for _ in client.repair_events(repair["id"]):
        pass
    ended = client.repair_state(repair["id"])

    assert ended["outcome"] == "repaired"
    fixed = client.attempt(ended["attempts"][0]["attempt_id"])
    assert fixed["verdict"] == "validated"


def test_source_over_the_cap_is_refused_with_its_field(client: PlainClient) -> None:
    with pytest.raises(ClientError) as refused:
        client.submit(submission("#" * 4097))
    assert (refused.value.code, refused.value.field) == ("too_large", "payload.text")


def test_records_are_read_by_its_own_route(client: PlainClient, daemon: DaemonProcess) -> None:
    done = attempt(client, submission())
    with daemon.http() as http:
        listed = http.get("/v1/ini/files").json()["files"]
        paths = http.get("/openapi.json").json()["paths"]
        kind = http.get("/v1/kinds/ini").json()

    assert {"attempt_id": done["id"], "uid": os.getuid(), "lines": 4, "fields_read": 3} in listed
    assert "/v1/ini/files" in paths
    assert kind["payload_schema"]["properties"]["text"] == {"title": "Text", "type": "string"}
    assert [option["name"] for option in kind["options"]] == ["fields", "complete"]


def test_doctor_runs_its_samples(daemon: DaemonProcess) -> None:
    with daemon.http() as http:
        checks = http.get("/v1/doctor", timeout=DOCTOR_S).json()["checks"]
    (found,) = [check for check in checks if check["check"] == "kind ini"]
    assert (found["status"], found["detail"]) == ("ok", "all 3 samples tried got the expected verdict")


def test_command_line_validates_shows_and_describes(daemon: DaemonProcess, tmp_path: Path) -> None:
    file = tmp_path / "server.ini"
    file.write_text(GOOD)
    fields = ",".join(f"{name}:{kind}" for name, kind in FIELDS.items())

    validated = daemon.assay("validate", "ini", file, "--option", f"fields={fields}", "--form", "flat")
    shown = daemon.assay("validate", "ini", file, "--option", f"fields={fields}")
    described = daemon.assay("kinds", "ini")
    listed = json.loads(daemon.assay("kinds", "--json").stdout)
    helped = daemon.assay("ini", "fields", file)

    assert (validated.returncode, validated.stderr) == (0, "")
    assert "server.log=/var/log/example" in validated.stdout
    assert "(3/3 fields" in shown.stdout
    assert "--option complete=" in described.stdout
    assert "ini" in {kind["kind"] for kind in listed["kinds"]}
    assert helped.stdout.startswith("server.host:str")
