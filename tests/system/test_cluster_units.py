"""Gateway and node as installed by the package: their units, with Debian's PostgreSQL and RabbitMQ."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.machines.installed import install, with_engine
from support.machines.machine import Machine, make_root
from support.machines.packages import download_wheels

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".run/cache"
SERVERS = ("postgresql", "python3-pip", "rabbitmq-server")
PASSWORD = "p" * 40
SOCKET = "/run/assayd/gateway.sock"
DATABASE = """\
CREATE ROLE assayd_owner LOGIN PASSWORD '{password}';
CREATE ROLE assayd_gateway LOGIN PASSWORD '{password}';
CREATE DATABASE assayd OWNER assayd_owner TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C';
\\c assayd
REVOKE ALL ON DATABASE assayd FROM PUBLIC;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea) FROM PUBLIC;
GRANT ALL ON SCHEMA public TO assayd_owner;
GRANT CONNECT ON DATABASE assayd TO assayd_gateway;
GRANT USAGE ON SCHEMA public TO assayd_gateway;
ALTER DEFAULT PRIVILEGES FOR ROLE assayd_owner IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO assayd_gateway;
ALTER DEFAULT PRIVILEGES FOR ROLE assayd_owner IN SCHEMA public GRANT USAGE ON SEQUENCES TO assayd_gateway;
"""
"""As docs/operating/cluster.md says it."""


@pytest.fixture(scope="module")
def machine(
    tools: Path, deb: Path, docker_host: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    """Return a system with a one-host cluster, set up according to the guide."""
    root = make_root(CACHE / "system-cluster", SERVERS)
    wheels = download_wheels(CACHE / "wheels", "cluster")
    scratch = tmp_path_factory.mktemp("m")
    with with_engine(root, scratch, docker_host, reads=[f"{wheels}:/mnt/wheels"]) as machine:
        install(machine, deb)
        set_up(machine)
        yield machine


def set_up(machine: Machine) -> None:
    """Set up a cluster on one host, according to docs/operating/cluster.md."""
    machine.sh("PIP_NO_INDEX=1 PIP_FIND_LINKS=/mnt/wheels assayd-extras install cluster")
    _make_accounts(machine)
    for name, text in _secrets().items():
        machine.write(f"/etc/assayd/cluster/{name}", text + "\n")
    machine.sh("chmod 600 /etc/assayd/cluster/*")
    machine.sh("assayd-gateway --migrate /etc/assayd/cluster/owner-url; rm /etc/assayd/cluster/owner-url")
    machine.run("systemctl", "enable", "--now", "assayd-gateway.service")
    token = "assay token create --name node-1 --node node-1 --out /etc/assayd/cluster/node-token"
    machine.sh(f"ASSAY_SOCKET={SOCKET} {token}")
    machine.write("/etc/assayd/node.toml", 'name = "node-1"\n')
    machine.run("systemctl", "enable", "--now", "assayd-node.service")


def _make_accounts(machine: Machine) -> None:
    machine.write("/tmp/database.sql", DATABASE.format(password=PASSWORD))
    machine.sh("systemctl start postgresql rabbitmq-server")
    machine.run("psql", "--set=ON_ERROR_STOP=1", "--file=/tmp/database.sql", user="postgres")
    salt = b"salt"
    hashed = base64.b64encode(salt + hashlib.sha256(salt + PASSWORD.encode()).digest()).decode()
    definitions = "/usr/share/doc/assayd/examples/rabbitmq/definitions.json"
    places = "".join(f"s|@{role}_PASSWORD_HASH@|{hashed}|;" for role in ("GATEWAY", "NODE"))
    machine.sh(f"sed '{places}' {definitions} >/tmp/definitions.json")
    machine.sh("rabbitmqctl await_startup && rabbitmqctl import_definitions /tmp/definitions.json")


def _secrets() -> dict[str, str]:
    return {
        "owner-url": f"postgresql+psycopg://assayd_owner:{PASSWORD}@127.0.0.1/assayd",
        "database-url": f"postgresql+psycopg://assayd_gateway:{PASSWORD}@127.0.0.1/assayd",
        "broker-url": f"amqp://gateway:{PASSWORD}@127.0.0.1/assayd",
        "node-broker-url": f"amqp://node:{PASSWORD}@127.0.0.1/assayd",
    }


def test_attempt_goes_through_gateway_and_node(machine: Machine) -> None:
    machine.sh(
        f"until ASSAY_SOCKET={SOCKET} assay nodes --json | grep --quiet '\"ready\"'; do sleep 0.5; done"
    )

    done = machine.sh(
        f"ASSAY_SOCKET={SOCKET} assay validate extractor /tmp/extract.py --sample-path /acme/report.csv",
        user="alice",
    )

    assert "Validation: ✓ Passed" in done.stdout
    attempt = done.stdout.split()[0]
    shown = json.loads(machine.sh(f"ASSAY_SOCKET={SOCKET} assay show {attempt} --json").stdout)
    assert shown["verdict"] == "validated"
    # The node's own daemon ran it.
    assert attempt in machine.run("assay", "list").stdout


def test_second_gateway_of_the_host_has_a_socket_and_a_state_of_its_own(machine: Machine) -> None:
    machine.run("systemctl", "enable", "--now", "assayd-gateway@2.service")
    try:
        asked = "ASSAY_SOCKET=/run/assayd/gateway2.sock assay nodes --json"
        nodes = json.loads(machine.sh(asked).stdout)
        listed = machine.sh("ls -d /var/lib/assayd-gateway@2/*").stdout
    finally:
        machine.run("systemctl", "disable", "--now", "assayd-gateway@2.service")

    assert "node-1" in json.dumps(nodes)
    assert listed
    assert machine.show("assayd-gateway.service", "ActiveState") == "active"


def test_gateway_without_its_secret_does_not_start_and_says_which_is_missing(machine: Machine) -> None:
    machine.sh("mv /etc/assayd/cluster/broker-url /root/")
    try:
        machine.sh("! systemctl start assayd-gateway@3.service")
        shown = machine.sh("systemctl status assayd-gateway@3.service || true").stdout
    finally:
        machine.sh("mv /root/broker-url /etc/assayd/cluster/")
        machine.run("systemctl", "stop", "assayd-gateway@3.socket")

    assert "/etc/assayd/cluster/broker-url" in shown


@pytest.mark.parametrize("name", ["assayd-gateway", "assayd-node"])
def test_program_runs_as_its_own_user_without_a_right_beyond(machine: Machine, name: str) -> None:
    pid = machine.show(f"{name}.service", "MainPID")
    status = machine.sh(f"grep -E '^(Uid|CapEff|NoNewPrivs|Seccomp):' /proc/{pid}/status").stdout.split()

    assert machine.show(f"{name}.service", "ActiveState") == "active"
    assert status[1] == machine.run("id", "--user", name).stdout.strip()
    assert status[status.index("CapEff:") + 1] == "0" * 16
    assert (status[status.index("NoNewPrivs:") + 1], status[-1]) == ("1", "2")


def test_pages_of_both_are_there(machine: Machine) -> None:
    for name in ("assayd-gateway", "assayd-node"):
        assert "SETTINGS" in machine.sh(f"zcat /usr/share/man/man8/{name}.8.gz").stdout
