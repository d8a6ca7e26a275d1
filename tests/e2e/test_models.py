"""Repairs by a model: a real daemon and containers, and a fake vendor API on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from assayd_client import PlainClient
from support.daemons.chosen import new_daemon
from support.daemons.daemon_process import DaemonProcess
from support.hosts.model_api import KEY, MODEL, OPENAI, Canned, ModelApi, model_api_in_a_thread

pytestmark = pytest.mark.engine

PATHS = ["/data/CLIENT-ABC/2024/Q1/report.csv", "/data/CLIENT-XYZ/2024/Q2/data.csv"]
WRONG = """
def extract(path):
    parts = path.split("/")
    quarter = int(parts[4])
    return {"client_id": parts[2], "quarter": quarter, "start_month": 3 * quarter - 2}
"""
RIGHT = WRONG.replace("int(parts[4])", "int(parts[4][1:])")


def answer(code: str) -> Canned:
    reply = {"patched_code": code, "fix_reason": "the Q was in the way"}
    return Canned(body=OPENAI.answer(json.dumps(reply)))


@pytest.fixture(scope="module")
def model() -> Iterator[ModelApi]:
    with model_api_in_a_thread(OPENAI) as api:
        yield api


@pytest.fixture(scope="module")
def daemon(
    one_engine: str, model: ModelApi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DaemonProcess]:
    key_file: Path = tmp_path_factory.mktemp("keys") / "key"
    key_file.write_text(KEY)
    key_file.chmod(0o600)
    provider = {"type": "openai", "model": MODEL, "base_url": model.base_url, "key_file": str(key_file)}
    made = new_daemon(one_engine, settings={"REPAIR__PROVIDERS": json.dumps({"model": provider})})
    try:
        made.start()
        yield made
    finally:
        made.dispose()


def repaired(client: PlainClient, model: ModelApi, *script: Canned) -> dict[str, object]:
    """Have a model repair the wrong extractor; return the ended repair."""
    model.script[:] = script
    payload = {"code": WRONG, "sample_paths": PATHS}
    failed = client.submit({"kind": "extractor", "payload": payload}, wait_s=60)
    assert failed["verdict"] == "failed"
    repair = client.repair(failed["id"], provider="model")
    for event in client.repair_events(repair["id"]):
        repair = event.body
    return repair


def test_model_repairs_an_extractor_and_its_key_is_nowhere(
    daemon: DaemonProcess, client: PlainClient, model: ModelApi
) -> None:
    repair = repaired(client, model, answer(RIGHT))
    assert (repair["outcome"], repair["fallback"]) == ("repaired", None)
    (fix,) = repair["attempts"]
    assert (fix["fix_reason"], fix["input_tokens"], fix["output_tokens"]) == ("the Q was in the way", 11, 7)
    attempt = client.attempt(fix["attempt_id"])
    assert attempt["report"]["runtime_results"]["cases"][0]["result"]["start_month"] == 1
    kept = [path for path in daemon.home.rglob("*") if path.is_file()]
    assert kept
    assert [path for path in kept if KEY.encode() in path.read_bytes()] == []
    assert KEY not in daemon.log.tail(100_000)
    assert "quarter = int" not in daemon.log.tail(100_000)


def test_rules_are_offered_where_the_model_fails_and_taken(
    daemon: DaemonProcess, client: PlainClient, model: ModelApi
) -> None:
    others = (WRONG.replace("[4]", f"[{n}]") for n in (1, 2))
    repair = repaired(client, model, *(answer(code) for code in others))
    assert repair["outcome"] == "stuck"
    fallback = repair["fallback"]
    assert (fallback["trigger"], fallback["applied"]["complete"]) == ("computed_fields", 2)
    assert fallback["applied"]["shown"][1]["fields"] == {"client_id": "XYZ", "quarter": 2}
    assert list(fallback["notes"]) == ["start_month"]

    taken = daemon.assay("repair", "accept", repair["id"])
    assert taken.returncode == 0, taken.stderr
    assert yaml.safe_load(taken.stdout)["extract"]["client_id"] == {
        "from": "segment(-4)",
        "pattern": "CLIENT-(.*)",
    }
    with daemon.http() as http:
        assert http.get(f"/v1/repairs/{repair['id']}/rules").text == taken.stdout
