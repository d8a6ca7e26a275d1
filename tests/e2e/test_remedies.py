"""What doctor says to do, done: the row is well afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from support.daemons.chosen import new_daemon
from support.daemons.daemon_process import BIN, IMAGES, ROOT, DaemonProcess
from support.engines.oci import needs_oci
from support.texts import guide

pytestmark = [pytest.mark.system, needs_oci]

MakeDaemon = Callable[..., DaemonProcess]
CACHE = ROOT / ".run" / "cache" / "images"


@pytest.fixture
def make_daemon() -> Iterator[MakeDaemon]:
    """Return what makes daemons without a container engine, and ends them after the test."""
    made: list[DaemonProcess] = []

    def make(*, settings: Mapping[str, str] | None = None, state: Path | None = None) -> DaemonProcess:
        made.append(
            new_daemon("oci", settings={"POOL__DEFAULT_TARGET": "0", **(settings or {})}, state=state)
        )
        return made[-1]

    yield make
    for daemon in made:
        daemon.dispose()


def row(daemon: DaemonProcess, check: str) -> dict[str, str]:
    rows = json.loads(daemon.assay("doctor", "--json").stdout)
    return next(each for each in rows if each["check"] == check)


def do(command: str, **variables: str) -> None:
    """Type a remedy into a shell that knows nothing of the daemon but what the variables say."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY")}
    environ |= {"PATH": f"{BIN}:{os.environ['PATH']}", **variables}
    subprocess.run(["bash", "-euc", command], env=environ, check=True, timeout=300)


def until_ok(daemon: DaemonProcess, check: str, within_s: float = 60) -> None:
    end = time.monotonic() + within_s
    while (found := row(daemon, check))["status"] != "ok":
        assert time.monotonic() < end, found
        time.sleep(0.5)


def test_image_that_is_missing_is_built_by_its_remedy_where_the_daemon_looks(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    """The command built it for the engine and in the folder of the default settings."""
    images = tmp_path / "images"
    shutil.copytree(IMAGES, images, symlinks=True, copy_function=os.link)
    next((images / "names").glob("*forth*")).unlink()
    daemon = make_daemon(settings={"ENGINE__IMAGES_DIR": str(images)})
    daemon.start()
    missing = row(daemon, "image forth")
    assert missing["status"] == "fail"
    assert row(daemon, "containers")["status"] == "ok"

    do(f"{missing['remedy']} --cache {CACHE}")

    until_ok(daemon, "image forth")
    submitted = daemon.assay("validate", "fifth", ROOT / "examples/fifth/primes.fs")
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr


def test_copy_of_a_state_directory_is_acknowledged_by_its_remedy(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    first = make_daemon()
    first.start()
    shutil.copytree(first.state, tmp_path / "copy", ignore=shutil.ignore_patterns("lock"))
    first.stop()
    daemon = make_daemon(state=tmp_path / "copy")
    daemon.start()
    copied = row(daemon, "identity")
    assert copied["status"] == "warn"
    command = copied["remedy"].split("`")[1]
    daemon.stop()

    do(command, ASSAYD_STATE_DIR=str(daemon.state))

    daemon.start()
    assert row(daemon, "identity")["status"] == "ok"


def test_policies_that_cannot_be_read_are_in_use_once_they_are_corrected(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    profile = tmp_path / "mine.toml"
    profile.write_text('extends = "extractor"\n')
    daemon = make_daemon(settings={"POLICY_FOLDERS": json.dumps([str(tmp_path)])})
    daemon.start()
    profile.write_text('extends = "nothing"\n')
    daemon.send(signal.SIGHUP)
    daemon.log.wait_for("policies.reload_failed")
    assert "correct the files and reload" in row(daemon, "policies")["remedy"]

    profile.write_text('extends = "extractor"\n')
    daemon.send(signal.SIGHUP)

    until_ok(daemon, "policies")


def test_restored_backup_serves_with_the_images_of_the_state_directory(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    """Nothing ran after a restore: an OCI runtime's images are not in a backup."""
    state, backup = tmp_path / "state", tmp_path / "backup"
    state.mkdir(mode=0o700)
    shutil.copytree(IMAGES, state / "images", symlinks=True, copy_function=os.link)
    daemon = make_daemon(settings={"ENGINE__IMAGES_DIR": str(state / "images")}, state=state)
    daemon.start()
    program = ROOT / "examples/script/sales_report.py"
    assert daemon.assay("validate", "script", program, "--option", "stdin=north apples 3").returncode == 0
    assert daemon.assay("backup", backup).returncode == 0
    daemon.stop()

    [restore] = [
        text for text in guide.commands(guide.OPERATING / "recover.md", "system") if "broken" in text
    ]
    for place, here in (("/var/lib/assayd", state), ("/var/backups/assayd", backup)):
        restore = restore.replace(place, str(here))
    do(f"systemctl() {{ :; }}; chown() {{ :; }}; {restore}")

    daemon.start()
    assert daemon.assay("show", "last").returncode == 0
    assert daemon.assay("validate", "script", program, "--option", "stdin=north apples 3").returncode == 0
