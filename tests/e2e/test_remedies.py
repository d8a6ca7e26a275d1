"""Doctor's remedies, carried out: the row is ok afterwards."""

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
from support.daemons.daemon_process import BIN, IMAGES, ROOT, DaemonProcess, new_home
from support.engines.cuttable_engine import CuttableEngine
from support.engines.oci import needs_oci
from support.texts import guide

pytestmark = [pytest.mark.system, needs_oci]

MakeDaemon = Callable[..., DaemonProcess]
CACHE = ROOT / ".run" / "cache" / "images"


@pytest.fixture
def make_daemon() -> Iterator[MakeDaemon]:
    """Return a function that creates daemons without a container engine; they are stopped after the test."""
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
    """Run a remedy in a shell that knows the daemon only through these variables."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY")}
    environ |= {"PATH": f"{BIN}:{os.environ['PATH']}", **variables}
    subprocess.run(["bash", "-euc", command], env=environ, check=True, timeout=300)


def until_ok(daemon: DaemonProcess, check: str, status: str = "ok") -> dict[str, str]:
    """Wait until a row has this status; return the row."""
    end = time.monotonic() + 60
    while (found := row(daemon, check))["status"] != status:
        assert time.monotonic() < end, found
        time.sleep(0.5)
    return found


def test_image_that_is_missing_is_built_by_its_remedy_where_the_daemon_looks(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    """Regression: the command built the image for the wrong engine, in the default settings' folder."""
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


@pytest.mark.parametrize("harm", ["deleted", "damaged"])
def test_image_that_is_harmed_below_a_daemon_is_repaired_by_its_remedy(
    make_daemon: MakeDaemon, tmp_path: Path, harm: str
) -> None:
    """Regression: doctor reported a deleted image as ok, and the engine stopped using templates."""
    images = tmp_path / "images"
    shutil.copytree(IMAGES, images, symlinks=True)
    daemon = make_daemon(settings={"ENGINE__IMAGES_DIR": str(images)})
    script = [ROOT / "examples/script/sales_report.py", "--option", "stdin=north apples 3"]
    folder = images / "images" / (images / "names" / "assayd%2Fpython%3Alatest").read_text()[len("sha256:") :]
    if harm == "damaged":
        file = folder / "rootfs/etc/passwd"
        file.chmod(0o644)
        file.write_text("evil")
    if harm == "damaged":
        daemon.spawn()
        daemon.log.wait_for("sandbox.not_ready")
    else:
        daemon.start()
        assert daemon.assay("validate", "script", *script).returncode == 0
        shutil.rmtree(folder)
    found = row(daemon, "image python")
    assert found["status"] == "fail"
    assert ("image assayd/python doesn't exist" if harm == "deleted" else "is damaged") in found["detail"]

    do(f"{found['remedy']} --cache {CACHE}")

    until_ok(daemon, "image python")
    until_ok(daemon, "containers")
    for _ in range(4):
        submitted = daemon.assay("validate", "script", *script)
        assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    assert "assayd_templates 1.0" in daemon.assay("metrics").stdout


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

    do(command)

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


def test_kind_without_its_policy_is_served_once_the_file_is_in_place(
    make_daemon: MakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, policies = tmp_path / "package", tmp_path / "policies"
    (package / "homeless-1.dist-info").mkdir(parents=True)
    (package / "homeless.py").write_text(
        "from assayd.kinds.script.validator import validator as script\n"
        "class Homeless(type(script)):\n    name = 'homeless'\n    default_policy = 'absent'\n"
        "validator = Homeless()\n"
    )
    about = package / "homeless-1.dist-info"
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: homeless\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[assayd.validators]\nhomeless = homeless:validator\n")
    monkeypatch.setenv("PYTHONPATH", str(package))
    policies.mkdir()
    folders = json.dumps([str(policies)])
    daemon = make_daemon(settings={"VALIDATORS": '["homeless"]', "POLICY_FOLDERS": folders})
    daemon.start()
    homeless = row(daemon, "kinds")
    assert homeless["detail"] == "homeless isn't served: no policy absent"
    assert "folder of `policy_folders`, then restart" in homeless["remedy"]

    (policies / "absent.toml").write_text('extends = "script"\n')
    daemon.stop()
    daemon.start()

    assert row(daemon, "kinds")["status"] == "ok"
    assert row(daemon, "kind homeless")["status"] == "ok"


def test_helper_is_used_once_it_is_installed(
    make_daemon: MakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    daemon = make_daemon()
    daemon.start()
    missing = row(daemon, "helpers")
    assert (missing["status"], missing["remedy"]) == ("warn", "install shellcheck, then restart the daemon")
    daemon.stop()

    (tmp_path / "shellcheck").symlink_to("/usr/bin/shellcheck")

    daemon.start()
    assert row(daemon, "helpers")["status"] == "ok"


def test_full_disk_is_well_once_there_is_room(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m,mode=0700", "none", state], check=True)
    try:
        daemon = make_daemon(settings={"LIMITS__MIN_FREE_MB": "32"}, state=state)
        daemon.start()
        assert row(daemon, "disk")["status"] == "ok"
        filler = state / "filler"
        filler.write_bytes(bytes(80 * 2**20))
        assert "free space on the artifacts' disk" in until_ok(daemon, "disk", "fail")["remedy"]

        filler.unlink()

        until_ok(daemon, "disk")
        daemon.stop()
    finally:
        subprocess.run(["umount", "--lazy", state], check=True)


def test_restored_backup_serves_with_the_images_of_the_state_directory(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    """Regression: after a restore, nothing ran, because a backup has no images of the OCI engine."""
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


def test_static_miss_is_found_by_its_remedy_and_counted_until_the_restart(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    """Regression: the remedy named no attempt."""
    (tmp_path / "few.toml").write_text('extends = "script"\n[imports]\nmode = "enforce"\nallowed = []\n')
    program = tmp_path / "hidden.py"
    program.write_text('name = "sock" + "et"\n__import__("importlib").import_module(name)\n')
    daemon = make_daemon(settings={"POLICY_FOLDERS": json.dumps([str(tmp_path)])})
    daemon.start()
    assert row(daemon, "static misses")["status"] == "ok"
    assert daemon.assay("validate", "script", program, "--policy", "few").returncode == 1
    missed = row(daemon, "static misses")
    assert missed["status"] == "warn", missed

    command = missed["remedy"].split("`")[1]
    said = daemon.assay(*command.split()[1:], "--json")

    [attempt] = json.loads(said.stdout)["attempts"]
    assert attempt["policy"] == "few"
    daemon.stop()
    daemon.start()
    assert row(daemon, "static misses")["status"] == "ok"


def test_engine_that_does_not_answer_is_well_once_it_is_started(docker_host: str) -> None:
    home = new_home()
    with CuttableEngine(home / "e", docker_host) as proxy:
        proxy.restore()
        daemon = new_daemon(proxy.url, settings={"POOL__DEFAULT_TARGET": "0"})
        try:
            daemon.start()
            before = row(daemon, "engine")["status"]  # a warning, if the engine has known vulnerabilities
            assert before != "fail"
            proxy.cut()
            assert until_ok(daemon, "engine", "fail")["remedy"] == "start the container engine"

            proxy.restore()

            until_ok(daemon, "engine", before)
        finally:
            daemon.dispose()
    home.rmdir()
