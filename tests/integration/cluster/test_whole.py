"""`make cluster`: attempts finish while a worker is killed, and a signal ends everything."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.broker import needs_broker
from support.cluster.load import Load
from support.cluster.whole import ROOT, processes_of
from support.engines.oci import needs_oci
from support.stores.postgres import needs_postgres

pytestmark = [needs_broker, needs_oci, needs_postgres]

STARTED_S = 180.0
LINES = 20


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="cluster-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def test_all_verdicts_come_once_though_a_worker_is_killed_and_a_signal_ends_everything(folder: Path) -> None:
    program = ROOT / "deploy/dev/cluster/run.py"
    options = ["--nodes", "2", "--engine", "oci", "--images-are-there", "--dir", folder]
    log = folder.with_suffix(".log")
    with log.open("wb") as output:
        running = subprocess.Popen([sys.executable, program, "start", *options], stderr=output)
    try:
        _wait_until_ready(running, log)
        load = Load(folder / "gateway.sock")
        batch = load.client.send_batch(iter(load.lines(LINES)), name="batch")
        ids = load.send(8, slow_s=1.0)
        [worker, _] = [pid for pid, line in processes_of(folder) if "assayd-node" in line]
        os.kill(worker, signal.SIGKILL)
        outcome = load.outcome(ids)
        last = list(load.client.batch_events(str(batch["id"])))[-1]
    finally:
        running.terminate()
        code = running.wait(120)

    assert (outcome.lost, outcome.wrong) == ([], [])
    assert last.body["validated"] + last.body["failed"] == LINES
    assert "assayd_gateway@" in (folder / "gateway/database.url").read_text()
    assert code == 0
    assert processes_of(folder) == []
    log.unlink()


def _wait_until_ready(running: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + STARTED_S
    while "cluster: ready" not in log.read_text():
        assert running.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.1)
