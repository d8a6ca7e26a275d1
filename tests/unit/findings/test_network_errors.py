"""What the relay knows of a run under an allowlist, in the words of its findings."""

from __future__ import annotations

import pytest

from assayd.findings.network_errors import add_network_facts
from assayd.findings.runs import cause_finding, raised_finding
from assayd.guest_results.record import Raised
from assayd.model.finding import Finding
from assayd.model.report import Judgement
from assayd.model.run import AccessProtocol, Cause, NetworkEvent, Outcome, RunEnd, RunResult, UnitResult


def event(trouble: str | None = None, *, finished: bool = True) -> NetworkEvent:
    return NetworkEvent(
        host="api.example.com",
        port=443,
        via=AccessProtocol.TLS,
        allowed=True,
        rule="network.listed",
        reason="",
        trouble=trouble,
        finished=finished,
    )


def suggestion(finding: Finding, cause: Cause, *events: NetworkEvent) -> str | None:
    unit = UnitResult(name="u", wait_status=None, network=events, outcome=Outcome(cause=cause))
    judgement = Judgement(stage_findings={"sandbox": (finding,)})
    worded = add_network_facts(judgement, RunResult(units=(unit,), end=RunEnd.FINISHED))
    return worded.stage_findings["sandbox"][0].suggestion


LATE = cause_finding(Cause.TIMEOUT, "The code")


@pytest.mark.parametrize(
    ("met", "words"),
    [
        (event(finished=False), "api.example.com:443 hadn't completed its answer when the time was up."),
        (event("network.idle"), "api.example.com:443: the connection was idle for too long."),
        (event("network.timed_out"), "api.example.com:443: the host didn't answer in time."),
        (event("network.relay_full"), "the daemon's relay is full for this user"),
    ],
)
def test_host_that_hangs_is_named_and_not_a_loop(met: NetworkEvent, words: str) -> None:
    said = suggestion(LATE, Cause.TIMEOUT, met)
    assert said is not None
    assert words in said
    assert "loop" not in said


@pytest.mark.parametrize("events", [(), (event(),)])
def test_loop_beside_accesses_that_were_served_is_still_one(events: tuple[NetworkEvent, ...]) -> None:
    assert suggestion(LATE, Cause.TIMEOUT, *events) == LATE.suggestion


def raised() -> Finding:
    record = Raised(phase="call", error_type="URLError", message="502", line=None, traceback="", where=None)
    return raised_finding(record, "")


def test_exception_of_the_network_is_explained_by_what_the_host_did() -> None:
    said = suggestion(raised(), Cause.EXITED_NONZERO, event("network.unreachable"))
    assert said == "api.example.com:443: the host refused the connection, or can't be reached."


def test_exception_of_the_network_is_not_told_to_do_without_network() -> None:
    said = suggestion(raised(), Cause.EXITED_NONZERO)
    assert said is not None
    assert "blocks the network" not in said
    assert "Take the data as an input" not in said
    assert "HTTPS_PROXY" in said
