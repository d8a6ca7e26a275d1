"""The systemd units, and systemd's own check of them."""

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


UNITS = [*sorted(SYSTEMD.glob("*.service")), *sorted(SYSTEMD.glob("*.socket"))]


def read(path: Path) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(path.read_text())
    return unit


SERVICES = ("assayd", "assayd-gateway", "assayd-node")


@analysed
@pytest.mark.parametrize("name", SERVICES)
def test_hardening_is_rated_ok_or_better(name: str) -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", SYSTEMD / f"{name}.service"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    rating = re.search(rf"exposure level for {name}\.service: ([\d.]+)", done.stdout)
    assert rating, done.stdout + done.stderr
    assert float(rating[1]) < 5.0  # from here on it says MEDIUM


@analysed
def test_units_hold_no_key_that_systemd_does_not_know(tmp_path: Path) -> None:
    for unit in UNITS:
        # The programs are not installed here, which is all that may be said.
        text = re.sub(r"^(Exec\w+)=/usr/bin/[\w-]+", r"\1=/bin/sh", unit.read_text(), flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(text)
        if unit.stem == "assayd-gateway":  # installed under both names
            (tmp_path / unit.name.replace(".", "@.")).write_text(text)
    for name in ("egress.conf", "oci.conf"):
        (tmp_path / "assayd.service.d").mkdir(exist_ok=True)
        (tmp_path / "assayd.service.d" / name).write_text((SYSTEMD / name).read_text())
    command = [
        "systemd-analyze",
        "verify",
        "--man=no",
        *(tmp_path / unit.name for unit in UNITS),
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
    # The runtime calls sethostname in each container, which ProtectHostname= refuses, too.
    assert "sethostname" in service["SystemCallFilter"].split()
    assert service["ProtectHostname"] == "no"


def test_unit_of_an_ordinary_user_leaves_newuidmap_its_rights() -> None:
    service = dict(read(SYSTEMD / "assayd-user.service")["Service"])
    assert (service["Delegate"], service["Environment"]) == ("yes", "ASSAYD_ENGINE__KIND=oci")
    # systemd.exec(5): of these each implies NoNewPrivileges= in a user's service manager.
    implying = ("NoNew", "Private", "Protect", "Restrict", "SystemCall", "Lock", "MemoryDeny", "DynamicUser")
    assert [key for key in service if key.startswith(implying) and key != "RestartPreventExitStatus"] == []


def test_service_may_not_take_the_whole_machine_unless_containers_are_part_of_it() -> None:
    service = dict(read(SERVICE)["Service"])
    assert (service["MemoryMax"], service["TasksMax"]) == ("4G", "512")
    own = dict(read(SYSTEMD / "oci.conf")["Service"])
    assert (own["MemoryMax"], own["TasksMax"]) == ("infinity", "infinity")


def test_socket_is_where_client_and_daemon_look_for_it() -> None:
    from assayd_client import SYSTEM_SOCKET

    socket = read(SYSTEMD / "assayd.socket")["Socket"]
    assert socket["ListenStream"] == str(SYSTEM_SOCKET)
    assert (socket["SocketMode"], socket["SocketGroup"]) == ("0660", "assayd")


@pytest.mark.parametrize("name", SERVICES)
def test_every_group_that_a_unit_names_is_made(name: str) -> None:
    made = set(re.findall(r"^[ug] (\S+)", (SYSTEMD / "assayd.sysusers").read_text(), re.MULTILINE))
    service = read(SYSTEMD / f"{name}.service")["Service"]
    named = {service["User"], service["Group"], *service.get("SupplementaryGroups", "").split()}
    assert named <= made


@pytest.mark.parametrize("name", ["assayd-gateway", "assayd-node"])
def test_services_of_a_cluster_make_no_containers_and_get_secrets_as_credentials(name: str) -> None:
    text = (SYSTEMD / f"{name}.service").read_text()
    service = read(SYSTEMD / f"{name}.service")["Service"]
    assert "docker" not in service.get("SupplementaryGroups", "")
    assert (service["User"], service["CapabilityBoundingSet"]) == (name, "")
    handed = re.findall(r"^LoadCredential=([\w-]+):/etc/assayd/cluster/", text, re.MULTILINE)
    read_from = re.findall(r"^Environment=\w+_FILE=%d/([\w-]+)$", text, re.MULTILINE)
    assert handed == read_from
    assert len(handed) == 2


def test_gateway_is_handed_the_socket_that_nodes_look_for() -> None:
    from assayd_cluster.settings import NodeSettings

    usual = NodeSettings.model_fields["gateway"].default
    listen = read(SYSTEMD / "assayd-gateway.socket")["Socket"]["ListenStream"]
    assert usual == "http+unix://" + listen.replace("%i", "")  # of the one that is no instance
    assert f"ASSAYD_SOCKET={listen}\n" in (SYSTEMD / "assayd-gateway.service").read_text()


@pytest.mark.parametrize("name", ["assayd-gateway", "assayd-node"])
def test_service_of_a_cluster_names_the_secret_without_which_it_does_not_start(name: str) -> None:
    text = (SYSTEMD / f"{name}.service").read_text()
    asserted = re.findall(r"^AssertPathExists=(\S+)$", text, re.MULTILINE)
    assert asserted == re.findall(r"^LoadCredential=[\w-]+:(\S+)$", text, re.MULTILINE)
    assert "_CONFIG=" not in text  # a file that is named has to be there


def test_everything_that_is_installed_is_in_the_checkout() -> None:
    placed = (DEPLOY / "install.sh").read_text().partition("\nfiles=(")[2].partition("\n)")[0]
    listed = re.findall(r"^    (\S+/\S+) (?:usr|\$doc)/\S+$", placed, re.MULTILINE)
    assert listed
    assert [name for name in listed if not (DEPLOY / name).is_file()] == []
