"""What the units say, and what systemd's own tool says of them."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
SYSTEMD = DEPLOY / "systemd"
SERVICE = SYSTEMD / "assayd.service"
analysed = (
    pytest.mark.system if shutil.which("systemd-analyze") is None else pytest.mark.filterwarnings("error")
)
"""For those without systemd these are among the tests of `make test-system`, which installs it."""


def read(path: Path) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(path.read_text())
    return unit


@analysed
def test_hardening_is_rated_ok_or_better() -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", SERVICE]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    rating = re.search(r"exposure level for assayd\.service: ([\d.]+)", done.stdout)
    assert rating, done.stdout + done.stderr
    assert float(rating[1]) < 5.0  # from here on it says MEDIUM


@analysed
def test_units_hold_no_key_that_systemd_does_not_know(tmp_path: Path) -> None:
    for unit in (SERVICE, SYSTEMD / "assayd.socket", SYSTEMD / "assay-console.service"):
        # The programs are not installed here, which is all that may be said.
        text = re.sub(r"^ExecStart=/usr/bin/\w+", "ExecStart=/bin/sh", unit.read_text(), flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(text)
    for name in ("egress.conf", "oci.conf"):
        (tmp_path / "assayd.service.d").mkdir(exist_ok=True)
        (tmp_path / "assayd.service.d" / name).write_text((SYSTEMD / name).read_text())
    command = [
        "systemd-analyze",
        "verify",
        "--man=no",
        tmp_path / "assayd.service",
        tmp_path / "assayd.socket",
        tmp_path / "assay-console.service",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    # Its exit code is 0 also for a key that it does not know.
    assert [line for line in done.stderr.splitlines() if "assay" in line] == []


def test_daemon_is_told_to_end_and_its_workers_are_not() -> None:
    assert read(SERVICE)["Service"]["KillMode"] == "mixed"


def test_peers_and_memory_stay_visible_to_the_daemon() -> None:
    service = read(SERVICE)["Service"]
    assert "PrivateUsers" not in service
    assert "ProcSubset" not in service


def test_daemon_reaches_this_host_alone_until_the_drop_in_for_allowlists_is_installed() -> None:
    service = read(SERVICE)["Service"]
    # The families stay open: a drop-in can't tell which profiles list hosts, addresses are what is denied.
    assert set(service["RestrictAddressFamilies"].split()) == {"AF_UNIX", "AF_INET", "AF_INET6"}
    assert (service["IPAddressDeny"], service["IPAddressAllow"]) == ("any", "localhost")
    assert dict(read(SYSTEMD / "egress.conf")["Service"]) == {"IPAddressAllow": "any"}


def test_drop_in_for_containers_without_an_engine_lists_what_root_keeps() -> None:
    service = dict(read(SYSTEMD / "oci.conf")["Service"])
    kept = {"CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_DAC_OVERRIDE"}
    assert set(service["CapabilityBoundingSet"].split()) == kept
    assert (service["User"], service["SupplementaryGroups"], service["Delegate"]) == ("root", "", "yes")
    assert service["Environment"] == "ASSAYD_ENGINE__KIND=oci"


def test_service_may_not_take_the_whole_machine_unless_containers_are_part_of_it() -> None:
    service = dict(read(SERVICE)["Service"])
    assert (service["MemoryMax"], service["TasksMax"]) == ("4G", "512")
    own = dict(read(SYSTEMD / "oci.conf")["Service"])
    assert (own["MemoryMax"], own["TasksMax"]) == ("infinity", "infinity")


def test_socket_is_where_client_and_daemon_look_for_it() -> None:
    from assayd.client import SYSTEM_SOCKET

    socket = read(SYSTEMD / "assayd.socket")["Socket"]
    assert socket["ListenStream"] == str(SYSTEM_SOCKET)
    assert (socket["SocketMode"], socket["SocketGroup"]) == ("0660", "assayd")


def test_every_group_that_a_unit_names_is_made() -> None:
    made = set(re.findall(r"^[ug] (\S+)", (SYSTEMD / "assayd.sysusers").read_text(), re.MULTILINE))
    service = read(SERVICE)["Service"]
    named = {service["User"], service["Group"], *service["SupplementaryGroups"].split()}
    assert named <= made


def test_everything_that_is_installed_is_in_the_checkout() -> None:
    placed = (DEPLOY / "install.sh").read_text().partition("\nfiles=(")[2].partition("\n)")[0]
    listed = re.findall(r"^    (\S+/\S+) (?:usr|\$doc)/\S+$", placed, re.MULTILINE)
    assert listed
    assert [name for name in listed if not (DEPLOY / name).is_file()] == []
