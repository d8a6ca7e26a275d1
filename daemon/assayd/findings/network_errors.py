"""Recognizes network access, and the requested host, in the exceptions of submitted code.

    urllib3   HTTPSConnectionPool(host='api.example.com', port=443): …      api.example.com:443
    aiohttp   Cannot connect to host api.example.com:443 ssl:default        api.example.com:443

The guest controls an exception's text. Therefore, the text affects only the wording of a hint.

Under an allowlist, the wording of findings also depends on the results of accesses to listed hosts. A
finding based only on an exception or a timeout would blame the code ("a loop that never ends") or the
profile ("blocks the network"). The relay knows which host hung, was down, or couldn't be resolved.

    The code ran out of time (after 5 s).   api.example.com:443 had not answered to its end when time was up
    …
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from assayd.findings.network_rules import TROUBLES, WORDINGS, NetworkRule, NetworkTrouble
from assayd.model.finding import Finding
from assayd.model.report import Judgement
from assayd.model.run import Cause, NetworkEvent, RunResult

_TYPES = frozenset(
    {
        "ClientConnectorError", "ClientHttpProxyError", "ClientProxyConnectionError", "ConnectError",
        "ConnectTimeout", "ConnectTimeoutError", "ConnectionError", "ConnectionRefusedError",
        "ConnectionResetError", "MaxRetryError", "NameResolutionError", "NewConnectionError", "ProxyError",
        "ReadTimeout", "RemoteDisconnected", "SSLError", "URLError", "gaierror",
    }
)  # fmt: skip
_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        r"host='(?P<host>[^'\s]{1,253})', port=(?P<port>\d{1,5})",
        r"[Cc]onnect to host (?P<host>[^\s:]{1,253}):(?P<port>\d{1,5})",
        r"\('(?P<host>[^'\s]{1,253})', (?P<port>\d{1,5})\)",
        r"https?://(?P<host>[^\s/:'\"\\]{1,253})(?::(?P<port>\d{1,5}))?",
    )
)
_REACHES = "The code accesses the network"
_HINT = (
    f"{WORDINGS[NetworkRule.BLOCKED].hint} It then reaches listed hosts, "
    "with a client that reads HTTP_PROXY and HTTPS_PROXY."
)


_IN_TESTS = {
    "httpx": "httpx.Client(transport=httpx.MockTransport(handler))",
    "aiohttp": "unittest.mock.AsyncMock instead of the session",
    "requests": 'unittest.mock.patch("requests.get"), or a patch of the session\'s method',
}
"""How to mock the responses of each client library."""


def network_hint(error_type: str, message: str, text: str = "") -> str | None:
    """Return the fix for a network exception; None for other exceptions.

    Args:
        error_type: the exception's class.
        message: the exception's text.
        text: the source that raised the exception. If this is a test, the fix can be to mock a client's
            responses.
    """
    if error_type.rpartition(".")[2] not in _TYPES:
        return None
    place = _parse_address(message)
    reaches = f"{_REACHES}{f' ({place})' if place else ''}."
    client = next((name for name in _IN_TESTS if name in text), None)
    if client is not None and "def test_" in text:
        return f"{reaches} In a test, fake the client's answers: {_IN_TESTS[client]}."
    return f"{reaches} {_HINT}"


def is_network_hint(suggestion: str | None) -> bool:
    """Return whether `network_hint` produced this suggestion."""
    return suggestion is not None and suggestion.startswith(_REACHES)


def _parse_address(message: str) -> str | None:
    for pattern in _PLACES:
        if (match := pattern.search(message)) is not None:
            port = match["port"]
            return match["host"] + (f":{port}" if port else "")
    return None


_LATE = frozenset({"sandbox.timeout", "tests.hung"})
_WAITED = frozenset({NetworkTrouble.IDLE, NetworkTrouble.TIMED_OUT, NetworkTrouble.RELAY_FULL})
_UNFINISHED = "hadn't completed its answer when the time was up"
_USE_PROXY = (
    "Under this profile, request only listed hosts, with a client that reads HTTP_PROXY and "
    "HTTPS_PROXY; for aiohttp: trust_env=True."
)
_SET_TIMEOUT = "Set a client timeout that is shorter than the unit's, and handle its exception."


def add_network_facts(judgement: Judgement, result: RunResult) -> Judgement:
    """Return the judgement of a run under an allowlist; add the relay's facts to its suggestions."""
    waited = _last_or_none(
        event for event in _late_accesses(result) if not event.finished or event.trouble in _WAITED
    )
    failed = _last_or_none(
        event for unit in result.units for event in unit.network if event.trouble is not None
    )
    stages = {
        stage: tuple(_reword_finding(finding, waited, failed) for finding in findings)
        for stage, findings in judgement.stage_findings.items()
    }
    return replace(judgement, stage_findings=stages)


def _reword_finding(finding: Finding, waited: NetworkEvent | None, failed: NetworkEvent | None) -> Finding:
    if finding.rule in _LATE and waited is not None:
        return replace(finding, suggestion=f"{_told(waited)}. {_SET_TIMEOUT}")
    if is_network_hint(finding.suggestion):
        return replace(finding, suggestion=f"{_told(failed)}." if failed is not None else _USE_PROXY)
    return finding


def _late_accesses(result: RunResult) -> Iterator[NetworkEvent]:
    """Yield the accesses of the units that timed out."""
    for unit in result.units:
        if unit.outcome.cause is Cause.TIMEOUT:
            yield from (event for event in unit.network if event.allowed)


def _told(event: NetworkEvent) -> str:
    place = event.host if event.port is None else f"{event.host}:{event.port}"
    return (
        f"{place} {_UNFINISHED}"
        if event.trouble is None
        else f"{place}: {TROUBLES[NetworkTrouble(event.trouble)]}"
    )


def _last_or_none(events: Iterable[NetworkEvent]) -> NetworkEvent | None:
    return next(iter([*events][-1:]), None)
