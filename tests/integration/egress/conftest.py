"""Guest code in a container without a network, the relay in one network namespace, a host in another."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass

import pytest
import pytest_asyncio

from assayd.aio import Deadline
from assayd.clock import SystemClock
from assayd.egress import Relay
from assayd.egress.decision import is_public
from assayd.guest_results import ReturnedValue, parse_guest_record
from assayd.metrics import Metrics
from assayd.model.policy import ImportMode, ImportPolicy, NetworkMode, NetworkPolicy
from assayd.model.run import Limits, Program, RunResult, RunSpec, Unit
from assayd.model.submission import JsonValue
from assayd.ports.egress import EgressLimits
from assayd.sandbox.conversation import RunObserver
from assayd.sandbox.sandbox import Sandbox
from support.engines import sandboxes
from support.engines.oci import make_one_engine
from support.hosts.namespaces import HOST_4, HOST_6, cable, inside
from support.hosts.upstream import TLS, Upstream, upstream

MIB = 2**20
LIMITS = Limits(timeout_s=50, unit_timeout_s=40, memory_bytes=128 * MIB, max_processes=16, work_bytes=8 * MIB)
ADDRESSES: Mapping[str, tuple[str, ...]] = {
    "api.example.com": (HOST_4,),
    "other.example.com": (HOST_6,),
    "private.example.com": ("10.0.0.1", "127.0.0.1", "::1", "fe80::1", "::ffff:203.0.113.10", "64:ff9b::1"),
}
AUTHORITY = {"ca.pem": (TLS / "ca.pem").read_bytes()}
LISTED = NetworkPolicy(mode=NetworkMode.ALLOWLIST, hosts=frozenset(ADDRESSES), ports=frozenset({80, 443}))


def is_public_here(address: str) -> bool:
    """Return whether an address is public, counting the test host's two addresses as public."""
    return address in {HOST_4, HOST_6} or is_public(address)


def look_up(host: str, port: int) -> tuple[str, ...]:
    return ADDRESSES.get(host, ())


def relay(**limits: float) -> Relay:
    """Return the daemon's relay with two parameters changed for the namespaces."""
    return Relay(
        EgressLimits(**limits),  # type: ignore[arg-type]
        SystemClock(),
        Metrics(),
        look_up=look_up,
        public=is_public_here,
    )


@pytest.fixture(scope="session")
def joined() -> Iterator[tuple[str, str]]:
    """Return the names of the client's and the host's namespaces."""
    with cable() as names:
        yield names


@pytest.fixture(scope="session")
def internet(joined: tuple[str, str]) -> Iterator[Upstream]:
    """Return the host."""
    with upstream(joined[1]) as host:
        yield host


@dataclass(frozen=True, slots=True, kw_only=True)
class Guests:
    """Runs guest code that has a relay."""

    sandbox: Sandbox

    async def execute(self, *argv: str, network: NetworkPolicy = LISTED, image: str = "shell") -> RunResult:
        """Run a program of an image in its own container."""
        unit = Unit(
            name="unit",
            program=Program.EXEC,
            arguments={"argv": [*argv], "env": {}},
            deadline_s=LIMITS.unit_timeout_s,
            status_decides=True,
        )
        return await self.of(
            RunSpec(
                image=image,
                limits=LIMITS,
                units=(unit,),
                network=network,
                imports=ImportPolicy(mode=ImportMode.OBSERVE),
                files=AUTHORITY,
                allow_exec=True,
            )
        )

    async def of(self, spec: RunSpec) -> RunResult:
        """Run a spec in its own container."""
        async with self.sandbox.lease(spec) as lease:
            return await self.sandbox.run(lease, Deadline(spec.limits.timeout_s))

    async def run(
        self,
        source: str,
        *,
        network: NetworkPolicy = LISTED,
        image: str = "python",
        killed_at_output: bool = False,
    ) -> RunResult:
        """Run a text in a container of its own; its `extract` gives the value.

        Args:
            killed_at_output: end the attempt when the code prints something.
        """
        text = {"source": textwrap.dedent(source), "filename": "given.py", "function": "extract"}
        unit = Unit(
            name="unit",
            program=Program.CALL,
            arguments={**text, "args": [], "kwargs": {}, "builtins": "full"},
            deadline_s=LIMITS.unit_timeout_s,
        )
        spec = RunSpec(
            image=image,
            limits=LIMITS,
            units=(unit,),
            network=network,
            imports=ImportPolicy(mode=ImportMode.OBSERVE),
            files=AUTHORITY,
        )
        deadline = Deadline(LIMITS.timeout_s)
        observer = _Killer(deadline) if killed_at_output else RunObserver()
        async with self.sandbox.lease(spec) as lease:
            return await self.sandbox.run(lease, deadline, observer)


class _Killer(RunObserver):
    """Ends an attempt at its first output."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def output(self, index: int, stream: str, data: bytes) -> None:
        self._deadline.cancel()


def value_of(result: RunResult) -> JsonValue:
    """Return the value that the only call returned."""
    (unit,) = result.units
    assert unit.results, (result.outcome, unit.stderr.text())
    record = parse_guest_record(unit.results[0])
    assert isinstance(record, ReturnedValue), record
    return record.value.value


@pytest_asyncio.fixture
async def guests(
    request: pytest.FixtureRequest, joined: tuple[str, str], internet: Upstream
) -> AsyncIterator[Guests]:
    """Return an object that runs guest code whose relay is in the client's namespace."""
    engine = make_one_engine(request, templates=False)
    with inside(joined[0]):
        try:
            async with sandboxes.sandbox_on(engine, egress=relay()) as sandbox:
                yield Guests(sandbox=sandbox)
        finally:
            await engine.close()
