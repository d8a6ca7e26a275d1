"""A cluster on two machines: gateway, servers and a node on this one, the second node on an emulated one.

This machine is a network namespace; the second one has a kernel, a clock and a disk of its own, and is
installed from the package. Each fault comes while programs run whose verdicts are known.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from assayd_cluster.bundles.packed import SUFFIX
from support.cluster.load import Load
from support.cluster.whole import WholeCluster, whole_cluster
from support.hosts.namespaces import CLIENT_4, HOST_4, inside, tapped
from support.machines.emulated import EmulatedMachine, make_node

NEAR, FAR = "node-1", "node-2"
TAP = "machine"
CAPACITY = 2
CUT_S = 30.0
JUMP_S = 600
SETTLED_WITHIN_S = 600.0
"""How long the emulated node may take until it takes work, or until all verdicts are in."""
START = f"""\
set -eu
modprobe virtio_pci
modprobe virtio_net
ip link set lo up
ip address add {CLIENT_4}/24 dev eth0
ip link set eth0 up
install -d -m 0755 /etc/assayd/cluster
install -m 0600 /settings/node-token /settings/node-broker-url /etc/assayd/cluster/
install -m 0644 /settings/ca.pem /settings/node.toml /etc/assayd/
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faced:
    """The outcome of one fault."""

    fault: str
    programs: int
    in_hand: int
    """Programs that the second machine ran when the fault came."""
    on_the_other_machine: int
    second_runs: int
    down_s: float
    all_judged_after_s: float
    wrong: list[str]
    lost: list[str]
    missing: list[str]
    """What is on record other than one verdict, one end and one bundle of each program."""

    def holds(self) -> bool:
        """Return whether every program has exactly one right verdict."""
        return not (self.wrong or self.lost or self.missing)


class TwoMachines:
    """The cluster, and the faults of its second machine."""

    def __init__(self, cluster: WholeCluster, machine: EmulatedMachine, namespace: str) -> None:
        self.cluster = cluster
        self.machine = machine
        self._namespace = namespace
        self._load = Load(cluster.socket)

    def wait_for_both(self, *, since: float = 0.0) -> None:
        """Wait until both nodes take work."""
        try:
            self.cluster.wait_for_nodes({NEAR, FAR}, since=since, within_s=SETTLED_WITHIN_S)
        except AssertionError:
            units = "journalctl --no-pager --lines=60 --unit=assayd --unit=assayd-node --unit=machine"
            print(self.machine.console(), self.machine.sh(units, check=False), flush=True)
            raise

    def face(self, name: str, programs: int, fault: Callable[[], float]) -> Faced:
        """Send programs, have the fault come in the middle, and compare what is on record.

        Args: `fault` returns for how many seconds the second machine was away.
        """
        before = self._load.send(programs // 2, slow_s=3.0, within_s=SETTLED_WITHIN_S)
        in_hand = self._wait_for_far_work(before)
        began = time.monotonic()
        down_s = fault()
        after = self._load.send(programs - programs // 2, slow_s=1.0, within_s=SETTLED_WITHIN_S)
        ids = [*before, *after]
        outcome = self._load.outcome(ids, within_s=SETTLED_WITHIN_S)
        return Faced(
            fault=name,
            programs=len(ids),
            in_hand=in_hand,
            on_the_other_machine=self._judged_by_far(ids),
            second_runs=self.cluster.second_runs(ids),
            down_s=round(down_s, 1),
            all_judged_after_s=round(outcome.last_at - began, 1),
            wrong=outcome.wrong,
            lost=outcome.lost,
            missing=self._missing(ids),
        )

    def cut_link(self) -> float:
        """Drop all packets for half a minute, without closing connections."""
        began = time.monotonic()
        self._link("down")
        time.sleep(CUT_S)
        self._link("up")
        return time.monotonic() - began

    def jump(self, seconds: int) -> Callable[[], float]:
        """Return a fault that moves the clock of the second machine's kernel."""

        def fault() -> float:
            before = float(self.machine.sh("date +%s.%N"))
            after = float(self.machine.sh(f"date --set='{seconds:+d} seconds' >/dev/null; date +%s.%N"))
            assert abs(after - before - seconds) < abs(seconds) / 2, (before, after)
            return 0.0

        return fault

    def lose_power(self) -> float:
        """Cut the power of the second machine, which stays off."""
        self.machine.power_off()
        return 0.0

    def boot_again(self) -> float:
        """Restore the power; return the seconds until the node takes work."""
        began = time.monotonic()
        now = time.time()
        self.machine.power_on()
        self.wait_for_both(since=now)
        return time.monotonic() - began

    def _link(self, state: str) -> None:
        command = ["ip", "-n", self._namespace, "link", "set", TAP, state]
        subprocess.run(command, check=True, timeout=30)

    def _wait_for_far_work(self, ids: list[str]) -> int:
        """Wait until the second machine runs work or all have verdicts; return the number of its runs."""
        left = "SELECT count(*) FROM dispatches WHERE attempt_id = ANY(%s)"
        self.cluster.wait_until(
            f"a run of {FAR}",
            lambda: self._held_by_far() > 0 or self.cluster.rows(left, ids)[0][0] == 0,
            SETTLED_WITHIN_S,
        )
        return self._held_by_far()

    def _held_by_far(self) -> int:
        held = "SELECT count(*) FROM runs JOIN dispatches USING (attempt_id) WHERE daemon_id = %s"
        return int(self.cluster.rows(held, FAR)[0][0])

    def _judged_by_far(self, ids: list[str]) -> int:
        statement = "SELECT count(*) FROM verdicts JOIN runs USING (attempt_id, run_number) "
        statement += "WHERE attempt_id = ANY(%s) AND daemon_id = %s"
        return int(self.cluster.rows(statement, ids, FAR)[0][0])

    def _missing(self, ids: list[str]) -> list[str]:
        verdicts, ends, bundles = self.cluster.verdicts(ids), self.cluster.ends(ids), self._bundles(ids)
        counts = {"verdicts": verdicts, "ends": ends, "bundles": len(bundles)}
        found = [f"{count} {what} of {len(ids)}" for what, count in counts.items() if count != len(ids)]
        folder = self.cluster.folder / "gateway/state/artifacts"
        whole = [path.relative_to(folder).as_posix() for path in folder.rglob(f"*{SUFFIX}")]
        for attempt, bundle in bundles.items():
            own = [name for name in whole if attempt in name]
            if own != [f"{bundle}{SUFFIX}"]:
                found.append(f"{attempt}: its verdict names the bundle {bundle}, there are {own}")
        return found

    def _bundles(self, ids: list[str]) -> dict[str, str]:
        statement = (
            "SELECT attempt_id, bundle FROM verdicts WHERE bundle IS NOT NULL AND attempt_id = ANY(%s)"
        )
        return {str(attempt): str(bundle) for attempt, bundle in self.cluster.rows(statement, ids)}


@contextmanager
def two_machines(work: Path) -> Iterator[TwoMachines]:
    """Run the cluster while the body runs, and remove all traces of it."""
    node = make_node(work)
    with tapped(TAP) as namespace, inside(namespace), whole_cluster(1, address=HOST_4) as cluster:
        machine = EmulatedMachine(node, work, _settings(cluster), TAP)
        try:
            print(f"the second machine has booted after {machine.power_on():.0f} s", flush=True)
            both = TwoMachines(cluster, machine, namespace)
            both.wait_for_both()
            yield both
        finally:
            machine.power_off()


def _settings(cluster: WholeCluster) -> dict[str, str]:
    """Return the settings of the second machine's node, with its token and broker account."""
    wanted = {"name": FAR, "tenant": "nodes", "scopes": ["node"], "node": FAR}
    status, said = cluster.started.ask("POST", "/v1/tokens", wanted)
    assert status == 201, said
    port = json.loads((cluster.folder / "rabbitmq/ports").read_text())["amqps"]
    broker = urlsplit(str(said["broker_url"]))
    login = broker.netloc.rpartition("@")[0]
    gateway_port = cluster.started.address.rpartition(":")[2]
    node = {
        "name": FAR,
        "gateway": f"https://{HOST_4}:{gateway_port}",
        "ca_file": "/etc/assayd/ca.pem",
        "broker_ca_file": "/etc/assayd/ca.pem",
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in node.items()]
    return {
        "start.sh": START,
        "node-token": f"{said['token']}\n",
        "node-broker-url": urlunsplit(broker._replace(scheme="amqps", netloc=f"{login}@{HOST_4}:{port}"))
        + "\n",
        "ca.pem": (cluster.folder / "gateway/ca.pem").read_text(),
        "node.toml": "\n".join([*lines, f"capacity = {CAPACITY}", ""]),
    }


def face_all(both: TwoMachines, programs: int) -> Iterator[Faced]:
    """Cause every fault, one after the other; `programs` are divided among them."""
    faults: list[tuple[str, Callable[[], float]]] = [
        ("none", lambda: 0.0),
        ("link cut for 30 s", both.cut_link),
        ("clock 10 minutes on", both.jump(JUMP_S)),
        ("clock 10 minutes back", both.jump(-JUMP_S)),
        ("power lost", both.lose_power),
    ]
    each, more = divmod(programs, len(faults) + 1)
    for place, (name, fault) in enumerate(faults):
        yield both.face(name, each + (place < more), fault)
        if name != "power lost":
            both.wait_for_both(since=time.time())
    yield both.face("power again", each, both.boot_again)


def as_json(faced: list[Faced]) -> str:
    """Return the outcomes as text."""
    return json.dumps([asdict(each) for each in faced], indent=1)
