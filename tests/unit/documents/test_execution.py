import signal
from dataclasses import replace

import pytest

from assayd.documents import build_execution_document, join_output, to_plain
from assayd.model.policy import NetworkPolicy
from assayd.model.run import (
    AccessProtocol,
    CapturedOutput,
    Cause,
    Limits,
    NetworkEvent,
    PolicyEvent,
    RunEndReason,
    RunOutcome,
    RunResult,
    UnitResult,
    to_policy_event,
)

LIMITS = Limits(timeout_s=5, unit_timeout_s=1, memory_bytes=64 * 2**20, max_processes=1)
BAD = RunOutcome(cause=Cause.SIGNALLED)
GOOD = RunOutcome(cause=Cause.COMPLETED)


def unit(status: int | None = 0, *, outcome: RunOutcome = GOOD, **fields: object) -> UnitResult:
    return UnitResult(name="u", wait_status=status, outcome=outcome, **fields)  # type: ignore[arg-type]


def execution(*units: UnitResult) -> dict[str, object]:
    run = RunResult(units=units, end=RunEndReason.FINISHED)
    return to_plain(build_execution_document(run, limits=LIMITS, network=NetworkPolicy()))


@pytest.mark.parametrize(
    ("units", "exit_code", "signal_name"),
    [
        ((), None, None),
        ((unit(),), 0, None),
        ((unit(3 << 8, outcome=BAD), unit()), 3, None),
        ((unit(), unit(signal.SIGSEGV, outcome=BAD), unit(9, outcome=BAD)), None, "SIGSEGV"),
        ((unit(signal.SIGRTMIN + 3, outcome=BAD),), None, f"SIG{signal.SIGRTMIN + 3}"),
        ((unit(None, outcome=BAD),), None, None),
    ],
)
def test_exit_code_and_signal_are_those_of_the_first_bad_unit(
    units: tuple[UnitResult, ...], exit_code: int | None, signal_name: str | None
) -> None:
    document = execution(*units)
    assert (document["exit_code"], document["signal"]) == (exit_code, signal_name)


def test_output_of_all_units_is_joined_and_counted_exactly() -> None:
    joined = join_output(
        [
            CapturedOutput(head=b"one\n", total_bytes=4),
            CapturedOutput(head=b"a", tail=b"z", total_bytes=1000),
        ],
        kept_bytes=100,
    )
    assert joined.text == "one\na\n[… 998 bytes dropped …]\nz"
    assert (joined.total_bytes, joined.truncated) == (1004, True)


def test_joined_output_over_the_cap_keeps_head_and_tail() -> None:
    joined = join_output([CapturedOutput(head=b"a" * 80, total_bytes=80)] * 2, kept_bytes=100)
    assert joined.text.startswith("a" * 50 + "\n[… 60 bytes")
    assert joined.text.endswith("a" * 50)
    assert (joined.total_bytes, joined.truncated) == (160, True)


def test_imports_of_several_units_are_listed_once() -> None:
    event = PolicyEvent(kind="import", detail="json", allowed=True, enforced=True, line=1)
    refused = PolicyEvent(kind="import", detail="os", allowed=False, enforced=True, file="adapter.py", line=2)
    document = execution(unit(events=(event, refused)), unit(events=(event, refused)))
    assert document["imports"] == [
        {"module": "json", "file": None, "line": 1, "allowed": True},
        {"module": "os", "file": "adapter.py", "line": 2, "allowed": False},
    ]
    assert document["import_violations"] == [
        {
            "module": "os",
            "location": "runtime",
            "file": "adapter.py",
            "line": 2,
            "rule": "import.not_allowed",
        }
    ]


@pytest.mark.parametrize(
    ("detail", "host", "port"),
    [
        ("example.org:443", "example.org", 443),
        ("[2001:db8::1]:80", "2001:db8::1", 80),
        ("socket", "socket", None),
        ("host:name", "host:name", None),
    ],
)
def test_a_refused_connection_is_listed_with_host_and_port(detail: str, host: str, port: int | None) -> None:
    event = PolicyEvent(kind="network", detail=detail, allowed=False, enforced=True)
    (violation,) = execution(unit(events=(event,)))["network_violations"]  # type: ignore[misc]
    assert (violation["host"], violation["port"], violation["rule"]) == (host, port, "network.blocked")


def test_what_the_relay_was_asked_for_is_listed_and_what_it_refused_is_a_violation_too() -> None:
    asked = NetworkEvent(
        host="a.example",
        port=443,
        via=AccessProtocol.TLS,
        allowed=False,
        rule="network.not_listed",
        reason="not listed",
    )
    served = replace(asked, host="b.example", allowed=True, rule="network.listed", address="192.0.2.1")
    refusal = to_policy_event(asked, enforced=True)
    document = execution(unit(), unit(events=(refusal,), network=(served, asked)))

    assert document["network_violations"] == [
        {
            "host": "a.example",
            "port": 443,
            "blocked": True,
            "reason": "not listed",
            "rule": "network.not_listed",
        }
    ]
    listed = [(a["unit"], a["host"], a["allowed"], a["address"]) for a in document["network_attempts"]]  # type: ignore[attr-defined]
    assert listed == [(1, "b.example", True, "192.0.2.1"), (1, "a.example", False, None)]
