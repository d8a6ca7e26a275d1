"""A restored copy started next to the live daemon with the commands of the operators' guide."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from assayd.ports.engine import LABEL_CONTAINER
from assayd_client import PlainClient
from support.daemons.daemon_process import BIN, DaemonProcess
from support.texts import guide
from support.texts.extractors import GOOD, extractor

pytestmark = pytest.mark.engine

PAGE = guide.OPERATING / "recover.md"


def rehearse(daemon: DaemonProcess, folder: Path) -> str:
    """Run the page's commands; return their output."""
    (lines,) = guide.commands(PAGE, "rehearsal")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY")}
    environ |= {f"ASSAYD_{name}": value for name, value in daemon.settings.items()}
    environ |= {"ASSAY_SOCKET": str(daemon.socket), "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", lines],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_copy_beside_the_live_daemon_takes_nothing_of_it(
    daemon: DaemonProcess, client: PlainClient, tmp_path: Path
) -> None:
    attempt = client.submit(extractor(GOOD), wait_s=60)
    daemon.log.forget()  # before the list: what is in it then is logged when the daemon removes it
    before = {container.labels[LABEL_CONTAINER] for container in daemon.containers()}
    assert before, "the live daemon keeps containers ready"

    said = rehearse(daemon, tmp_path)

    assert attempt["id"] in said
    assert f"copy of that of daemon {daemon.daemon_id}" in " ".join(said.split())
    gone = before - {container.labels[LABEL_CONTAINER] for container in daemon.containers()}
    for container in gone:
        daemon.log.wait_for("container.removed", container=container)
    assert not daemon.log.events("container.died_idle")
    assert "containers.reaped" not in (tmp_path / "rehearsal.log").read_text()
    copied = (tmp_path / "rehearsal/daemon-id").read_text().split()
    assert (copied[0] != daemon.daemon_id, copied[2]) == (True, daemon.daemon_id)
    assert "state.copied" in (tmp_path / "rehearsal.log").read_text()
    assert client.submit(extractor(GOOD), wait_s=60)["verdict"] == "validated"
