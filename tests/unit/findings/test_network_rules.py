"""What is said of the network: refusals by their rule, and exceptions by the host that they name."""

from __future__ import annotations

import pytest

from assayd.findings.network_errors import network_hint
from assayd.findings.runs import event_findings, raised_finding
from assayd.guest_results.record import Raised
from assayd.model.finding import Severity
from assayd.model.run import AccessProtocol, NetworkEvent, PolicyEvent, to_policy_event

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
    (finding,) = event_findings([to_policy_event(ASKED, enforced=enforced)], "")

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
    (finding,) = event_findings([event], "")

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
    hint = network_hint(error_type, message)

    assert (hint is None) is (place is None)
    assert place is None or f"({place})" in (hint or "")


def test_finding_of_an_exception_says_how_the_network_is_reached() -> None:
    record = Raised(
        error_type="URLError",
        message="<urlopen error [Errno 1] Operation not permitted>",
        line=None,
        traceback="",
        where=None,
        phase="call",
    )
    assert "HTTP_PROXY" in (raised_finding(record, "").suggestion or "")


@pytest.mark.parametrize("message", ["host='" + "x" * 10_000, "https://" + "a" * 10_000, "('" * 5_000])
def test_exception_with_a_long_text_is_read_in_no_time_and_names_nothing(message: str) -> None:
    hint = network_hint("ConnectionError", message)

    assert hint is not None
    assert len(hint) < 1000
