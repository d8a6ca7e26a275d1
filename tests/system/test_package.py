"""The Debian package on a system with systemd: installed, used, monitored, upgraded, removed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.machines.installed import install, validate, wait_until_it_serves, with_engine
from support.machines.machine import Machine
from support.machines.packages import next_version

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def machine(
    system_root: Path, deb: Path, docker_host: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    """Return a system with the package; each test undoes its changes."""
    with with_engine(system_root, tmp_path_factory.mktemp("m"), docker_host) as machine:
        install(machine, deb)
        yield machine


def journal(machine: Machine) -> list[dict[str, str]]:
    lines = machine.run("journalctl", "--unit=assayd", "--output=json", "--no-pager").stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_service_is_up_as_soon_as_the_package_is_installed(machine: Machine) -> None:
    assert machine.show("assayd.service", "ActiveState") == "active"
    assert machine.show("assayd.service", "StatusText").startswith("serving;")
    assert (
        machine.run("systemctl", "is-enabled", "assayd.socket", "assayd.service").stdout.split()
        == ["enabled"] * 2
    )


def test_members_of_the_group_are_served_and_others_are_not(machine: Machine) -> None:
    validate(machine, "alice")

    refused = machine.run("assay", "list", user="bob", check=False)

    assert refused.returncode == 4
    assert "you aren't allowed to open it; join the group that owns it" in refused.stderr


def test_report_is_shown_to_a_user_who_cannot_enter_the_daemons_state(machine: Machine) -> None:
    attempt = validate(machine, "alice")

    shown = machine.run("assay", "show", attempt, user="alice")

    assert f"Bundle: assay artifacts {attempt} --extract DIR" in shown.stdout
    assert shown.stderr == ""


def test_daemon_runs_as_its_own_user_and_keeps_its_state_to_itself(machine: Machine) -> None:
    pid = machine.show("assayd.service", "MainPID")
    status = machine.sh(f"grep -E '^(Uid|CapEff|NoNewPrivs|Seccomp):' /proc/{pid}/status").stdout.split()

    uid = machine.run("id", "--user", "assayd").stdout.strip()
    assert status[:2] == ["Uid:", uid]
    assert status[status.index("CapEff:") + 1] == "0" * 16
    assert status[status.index("NoNewPrivs:") + 1] == "1"
    assert status[status.index("Seccomp:") + 1] == "2"
    assert machine.sh("stat -c '%U %a' /var/lib/assayd /var/lib/assayd/assayd.db").stdout.split() == [
        "assayd", "700", "assayd", "600"
    ]  # fmt: skip


def test_doctor_finds_nothing_that_fails(machine: Machine) -> None:
    checks = json.loads(machine.run("assay", "doctor", "--json").stdout)

    assert [check for check in checks if check["status"] == "fail"] == []
    assert "isolation" in {check["check"] for check in checks}


def test_client_starts_the_service_through_its_socket(machine: Machine) -> None:
    machine.run("systemctl", "stop", "assayd.service")
    assert machine.show("assayd.service", "ActiveState") == "inactive"

    told = machine.run("assay", "metrics", user="alice").stdout

    assert "assayd_build_info" in told
    assert machine.show("assayd.service", "ActiveState") in {"activating", "active"}
    wait_until_it_serves(machine)
    validate(machine)


def test_daemon_that_hangs_is_started_anew(machine: Machine) -> None:
    attempt = validate(machine)
    machine.write(
        "/etc/systemd/system/assayd.service.d/watchdog.conf", "[Service]\nWatchdogSec=10\nRestartSec=0\n"
    )
    machine.sh("systemctl daemon-reload; systemctl restart assayd.service")
    before = machine.show("assayd.service", "MainPID")

    machine.sh(f"kill -STOP {before}")
    # Gives back control when the watchdog has ended it.
    machine.run("tail", f"--pid={before}", "--follow", "/dev/null")
    machine.sh(
        "rm -r /etc/systemd/system/assayd.service.d; systemctl daemon-reload; systemctl start assayd.service"
    )

    wait_until_it_serves(machine)
    assert int(machine.show("assayd.service", "NRestarts")) >= 1
    assert machine.show("assayd.service", "MainPID") != before
    machine.sh("journalctl --unit=assayd | grep 'Watchdog timeout'")
    assert attempt in machine.run("assay", "list", user="alice").stdout


def test_journal_knows_the_weight_of_a_line(machine: Machine) -> None:
    validate(machine)

    said = [
        (entry["PRIORITY"], json.loads(entry["MESSAGE"]))
        for entry in journal(machine)
        if entry["MESSAGE"].startswith("{")
    ]

    weights = {event["level"]: priority for priority, event in said}
    assert weights["info"] == "6"
    assert weights["warning"] == "4"
    finished = [event for _, event in said if event["event"] == "attempt.finished"]
    assert finished[-1]["request_id"]


STRICT = """\
description = "Short"
extends = "extractor"
[resources]
timeout_s = 7
"""


def test_reload_takes_new_policies_and_says_so(machine: Machine) -> None:
    machine.write("/etc/assayd/policies/strict.toml", STRICT)

    machine.run("systemctl", "reload", "assayd.service")

    machine.sh("until journalctl -u assayd | grep --quiet policies.reloaded; do sleep 0.1; done")
    shown = json.loads(machine.run("assay", "policy", "show", "strict", "--json").stdout)
    machine.sh("rm /etc/assayd/policies/strict.toml; systemctl reload assayd.service")
    assert shown["resources"]["timeout_s"] == 7


def test_hardening_is_rated_ok_as_installed(machine: Machine) -> None:
    rating = machine.run("systemd-analyze", "security", "--no-pager", "assayd.service").stdout.splitlines()[
        -1
    ]
    assert " OK " in rating


def test_units_are_verified_without_a_word(machine: Machine) -> None:
    done = machine.run("systemd-analyze", "verify", "--man=no", "assayd.service", "assayd.socket")
    assert [line for line in done.stderr.splitlines() if "assayd" in line] == []


def test_wrong_settings_are_said_and_not_tried_again(machine: Machine) -> None:
    machine.sh("cp /etc/assayd/assayd.toml /root/good.toml")
    machine.sh("sed --in-place '1i concurrency = 0' /etc/assayd/assayd.toml")

    restarted = machine.run("systemctl", "restart", "assayd.service", check=False)
    state = machine.show("assayd.service", "ActiveState"), machine.show("assayd.service", "ExecMainStatus")
    machine.sh("cp /root/good.toml /etc/assayd/assayd.toml; systemctl start assayd.service")
    wait_until_it_serves(machine)

    assert restarted.returncode != 0
    assert state == ("failed", "2")
    machine.sh("journalctl --unit=assayd | grep '/etc/assayd/assayd.toml:1: concurrency'")


COMPLETE = """\
source /usr/share/bash-completion/completions/assay
COMP_WORDS=(assay im) COMP_CWORD=1
_assay_completion assay
echo "${COMPREPLY[@]}"
"""


def test_completion_and_manual_pages_are_there(machine: Machine) -> None:
    assert machine.run("bash", "-c", COMPLETE).stdout.split() == ["images"]
    assert "EXIT STATUS" in machine.sh("zcat /usr/share/man/man1/assay.1.gz").stdout
    assert "SETTINGS" in machine.sh("zcat /usr/share/man/man8/assayd.8.gz").stdout


def test_upgrade_and_removal_keep_what_is_the_operators(
    system_root: Path, deb: Path, docker_host: str, tmp_path: Path
) -> None:
    with with_engine(system_root, tmp_path, docker_host) as machine:
        install(machine, deb)
        attempt = validate(machine)
        machine.sh("sed --in-place 's/^#concurrency = .*/concurrency = 3/' /etc/assayd/assayd.toml")

        machine.copy(next_version(deb, tmp_path), "/root/next.deb")
        machine.run("dpkg", "--install", "/root/next.deb", timeout_s=600)

        assert "-99" in machine.run("dpkg-query", "--show", "assayd").stdout
        assert machine.show("assayd.service", "ActiveState") == "active"
        assert "concurrency = 3\t" in machine.run("assayd", "--print-config").stdout
        wait_until_it_serves(machine)
        assert attempt in machine.run("assay", "list", user="alice").stdout
        validate(machine)

        machine.run("dpkg", "--remove", "assayd")

        assert (
            machine.run("systemctl", "is-active", "assayd.service", check=False).stdout.strip() == "inactive"
        )
        machine.sh("test ! -e /usr/bin/assay; test ! -e /run/assayd/assayd.sock; test ! -e /usr/lib/assayd")
        assert "concurrency = 3" in machine.sh("cat /etc/assayd/assayd.toml").stdout.splitlines()
        assert owned_by(machine, docker_host) == []

        machine.run("dpkg", "--purge", "assayd")

        machine.sh("test ! -e /var/lib/assayd; test ! -e /etc/assayd; test ! -e /usr/share/doc/assayd")


def owned_by(machine: Machine, engine: str) -> list[str]:
    """List the containers that a system's daemon has on the engine."""
    daemon_id = machine.sh("cat /var/lib/assayd/daemon-id").stdout.split()[0]
    command = [
        "docker",
        "--host",
        engine,
        "ps",
        "--all",
        "--quiet",
        f"--filter=label=org.assayd.daemon={daemon_id}",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
