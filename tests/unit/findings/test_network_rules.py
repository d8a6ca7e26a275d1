"""Findings about the network: refusals by their rule, and exceptions by the host that they name."""

from __future__ import annotations

import pytest

from assayd.findings.network_rules import add_network_facts, suggest_network_fix
from assayd.findings.runs import build_cause_finding, build_exception_finding, iter_event_findings
from assayd.guest_results import RaisedException
from assayd.model.finding import Finding, Severity
from assayd.model.report import Judgement
from assayd.model.run import (
    AccessProtocol,
    Cause,
    NetworkEvent,
    PolicyEvent,
    RunEndReason,
    RunOutcome,
    RunResult,
    UnitResult,
    to_policy_event,
)

ASKED = NetworkEvent(
    host="evil.test",
    port=443,
    via=AccessProtocol.TLS,
    allowed=False,
    rule="network.not_listed",
    reason="it is not listed",
)


@pytest.mark.parametrize(("enforced", "severity"), [(True, Severity.ERROR), (False, Severity.INFO)])
def test_refused_access_names_place_rule_and_what_to_do(enforced: bool, severity: Severity) -> None:
    (finding,) = iter_event_findings([to_policy_event(ASKED, enforced=enforced)], "")

    assert (finding.rule, finding.severity) == ("policy.network", severity)
    assert "evil.test:443 (network.not_listed: it is not listed)" in finding.message
    assert finding.suggestion is not None
    assert finding.suggestion.startswith("Request only hosts that the profile lists")


def test_blocked_network_is_told_with_the_profile_that_would_do() -> None:
    event = PolicyEvent(
        kind="network",
        detail="api.example.com:443",
        allowed=False,
        enforced=True,
        rule="network.blocked",
        reason="the profile blocks the network",
    )
    (finding,) = iter_event_findings([event], "")

    assert "the profile blocks the network" in finding.message
    assert 'network.mode = "allowlist"' in (finding.suggestion or "")


@pytest.mark.parametrize(
    ("error_type", "message", "place"),
    [
        (
            "requests.exceptions.ConnectionError",
            "HTTPSConnectionPool(host='api.example.com', port=443): Max retries exceeded with url: /x",
            "api.example.com:443",
        ),
        ("ClientConnectorError", "Cannot connect to host a.test:80 ssl:default [None]", "a.test:80"),
        ("OSError", "nothing of the network's", None),
        ("ConnectionRefusedError", "Connect call failed ('127.0.0.1', 80)", "127.0.0.1:80"),
        ("httpx.ConnectError", "no route to https://a.test/x", "a.test"),
    ],
)
def test_exception_of_the_network_names_the_host_that_it_wanted(
    error_type: str, message: str, place: str | None
) -> None:
    hint = suggest_network_fix(error_type, message)

    assert (hint is None) is (place is None)
    assert place is None or f"({place})" in (hint or "")


def test_finding_of_an_exception_says_how_the_network_is_reached() -> None:
    record = RaisedException(
        error_type="URLError",
        message="<urlopen error [Errno 1] Operation not permitted>",
        line=None,
        traceback="",
        where=None,
        phase="call",
    )
    assert "HTTP_PROXY" in (build_exception_finding(record, "").suggestion or "")


@pytest.mark.parametrize("message", ["host='" + "x" * 10_000, "https://" + "a" * 10_000, "('" * 5_000])
def test_exception_with_a_long_text_is_read_in_no_time_and_names_nothing(message: str) -> None:
    hint = suggest_network_fix("ConnectionError", message)

    assert hint is not None
    assert len(hint) < 1000


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
    unit = UnitResult(name="u", wait_status=None, network=events, outcome=RunOutcome(cause=cause))
    judgement = Judgement(stage_findings={"sandbox": (finding,)})
    worded = add_network_facts(judgement, RunResult(units=(unit,), end=RunEndReason.FINISHED))
    return worded.stage_findings["sandbox"][0].suggestion


LATE = build_cause_finding(Cause.TIMEOUT, "The code")


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
    record = RaisedException(
        phase="call", error_type="URLError", message="502", line=None, traceback="", where=None
    )
    return build_exception_finding(record, "")


def test_exception_of_the_network_is_explained_by_what_the_host_did() -> None:
    said = suggestion(raised(), Cause.EXITED_NONZERO, event("network.unreachable"))
    assert said == "api.example.com:443: the host refused the connection, or can't be reached."


def test_exception_of_the_network_is_not_told_to_do_without_network() -> None:
    said = suggestion(raised(), Cause.EXITED_NONZERO)
    assert said is not None
    assert "blocks the network" not in said
    assert "Take the data as an input" not in said
    assert "HTTPS_PROXY" in said
