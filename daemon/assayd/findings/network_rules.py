"""Texts about network access: rules with their fixes, and hints for exceptions and timeouts.

`egress.decision` decides which rule applies. For an example of each rule, see docs/egress-decisions.md.

The module recognizes network access, and the requested host, in the exceptions of submitted code:

    urllib3   HTTPSConnectionPool(host='api.example.com', port=443): …      api.example.com:443
    aiohttp   Cannot connect to host api.example.com:443 ssl:default        api.example.com:443

The guest controls an exception's text. Therefore, the text affects only the wording of a hint.

Under an allowlist, the wording of findings also depends on the results of accesses to listed hosts. A finding
based only on an exception or a timeout would blame the code ("a loop that never ends") or the profile
("blocks the network"). The relay knows which host hung, was down, or couldn't be resolved.

    The code ran out of time (after 5 s).   api.example.com:443 had not answered to its end when time was up …
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from assayd.model.finding import Finding
from assayd.model.policy import NetworkMode
from assayd.model.report import Judgement
from assayd.model.run import Cause, NetworkEvent, RunResult


class NetworkRule(StrEnum):
    """The rule that decided an access."""

    LISTED = "network.listed"
    """The only rule that allows: the profile lists host, port, and everything else."""
    BLOCKED = "network.blocked"
    """The profile has no allowlist."""
    NOT_PROXIED = "network.not_proxied"
    """Guest code bypassed the proxy, the only network egress."""
    TARGET_INVALID = "network.target_invalid"
    """The requested URL has no host, which a proxy needs."""
    USER_IN_URL = "network.user_in_url"
    """The URL contains a user name or a password before the host."""
    HOST_MISSING = "network.host_missing"
    """The request names no host."""
    HOST_INVALID = "network.host_invalid"
    """The host name is invalid."""
    ADDRESS_LITERAL = "network.address_literal"
    """The host is an address, in any notation."""
    NOT_LISTED = "network.not_listed"
    """No entry of the allowlist covers the host."""
    PORT_NOT_LISTED = "network.port_not_listed"
    """The profile doesn't list the port."""
    HTTP_ONLY = "network.http_only"
    """The entry restricts methods or paths, which the relay can't see inside TLS."""
    METHOD_NOT_LISTED = "network.method_not_listed"
    """The entry doesn't list the method."""
    PATH_NOT_LISTED = "network.path_not_listed"
    """The entry doesn't list the path, or servers could interpret the path differently."""
    HOST_MISMATCH = "network.host_mismatch"
    """The Host header names another host than the target."""
    ADDRESS_NOT_PUBLIC = "network.address_not_public"
    """The name resolves only to addresses that aren't public."""
    NOT_TLS = "network.not_tls"
    """Data other than TLS followed CONNECT."""
    HELLO_MALFORMED = "network.hello_malformed"
    """The ClientHello is malformed or too large."""
    HELLO_FRAGMENTED = "network.hello_fragmented"
    """The ClientHello is split into more records than any client uses."""
    SNI_MISSING = "network.sni_missing"
    """The ClientHello names no host."""
    SNI_MISMATCH = "network.sni_mismatch"
    """The ClientHello names another host than CONNECT."""
    SNI_ENCRYPTED = "network.sni_encrypted"
    """The ClientHello may name another host in its encrypted part."""
    HTTP_MALFORMED = "network.http_malformed"
    """The request isn't HTTP, or its head is too large."""
    FRAMING_AMBIGUOUS = "network.framing_ambiguous"
    """The request has two lengths, so two parsers could see different requests in it."""
    TOO_SLOW = "network.too_slow"
    """The request or the ClientHello didn't arrive in time."""
    TOO_MANY_CONNECTIONS = "network.too_many_connections"
    """The attempt has reached its limit of connections and requests."""
    TOO_MANY_BYTES = "network.too_many_bytes"
    """The attempt has reached its limit of sent or received bytes."""


class NetworkTrouble(StrEnum):
    """The cause of an allowed access's failure, for which the policy isn't responsible."""

    NOT_RESOLVED = "network.not_resolved"
    """The name has no address."""
    UNREACHABLE = "network.unreachable"
    """No address could be connected."""
    TIMED_OUT = "network.timed_out"
    """Name resolution or the connection exceeded the profile's time limit."""
    BROKEN_OFF = "network.broken_off"
    """The host or the code reset the connection."""
    IDLE = "network.idle"
    """Neither side sent anything for too long."""
    RELAY_FULL = "network.relay_full"
    """The relay had no free slot for the connection; not the fault of the code or the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleText:
    """The text of a rule, and its fix."""

    reason: str
    hint: str


_LIST_HOST_HINT = (
    "Request only hosts that the profile lists, or ask an operator to add this one to network.hosts."
)
_ABSOLUTE_URL_HINT = (
    "Request an absolute URL: http://host/path; for https the client must use CONNECT host:port."
)
_USE_NAME_HINT = "Use the host's name as the profile lists it."
_ONE_HOST_HINT = "Connect to the intended host; a connection is for one host."
_PLAIN_CLIENT_HINT = "Use an ordinary HTTP client with its usual settings."
_SEND_LESS_HINT = "Transfer less, or ask an operator to raise the limits in [egress]."

TEXT_BY_RULE: Mapping[NetworkRule, RuleText] = {
    NetworkRule.LISTED: RuleText(reason="the profile lists it", hint=""),
    NetworkRule.BLOCKED: RuleText(
        reason="the profile blocks the network",
        hint="Pass the data as an input, a file or standard input. In tests, fake the answers "
        "(unittest.mock.patch, httpx.MockTransport). "
        'Only a profile with network.mode = "allowlist" allows access.',
    ),
    NetworkRule.NOT_PROXIED: RuleText(
        reason="only the proxy leads to listed hosts",
        hint="Use the proxy in HTTP_PROXY and HTTPS_PROXY; for aiohttp: trust_env=True.",
    ),
    NetworkRule.TARGET_INVALID: RuleText(
        reason="the target isn't valid for a proxy", hint=_ABSOLUTE_URL_HINT
    ),
    NetworkRule.USER_IN_URL: RuleText(
        reason="the URL has a user name or password",
        hint="Remove it from the URL, and send it in an Authorization header.",
    ),
    NetworkRule.HOST_MISSING: RuleText(reason="no host is named", hint=_ABSOLUTE_URL_HINT),
    NetworkRule.HOST_INVALID: RuleText(reason="the host name isn't valid ASCII", hint=_USE_NAME_HINT),
    NetworkRule.ADDRESS_LITERAL: RuleText(reason="profiles list names, not addresses", hint=_USE_NAME_HINT),
    NetworkRule.NOT_LISTED: RuleText(reason="the host isn't on the allowlist", hint=_LIST_HOST_HINT),
    NetworkRule.PORT_NOT_LISTED: RuleText(
        reason="the port isn't one of the profile's",
        hint="Use a listed port, or ask an operator to add this one to network.ports.",
    ),
    NetworkRule.HTTP_ONLY: RuleText(
        reason="the profile restricts methods or paths of this host, which TLS would hide",
        hint="Use http:// for this host.",
    ),
    NetworkRule.METHOD_NOT_LISTED: RuleText(
        reason="the profile doesn't list this method for this host", hint="Use a listed method."
    ),
    NetworkRule.PATH_NOT_LISTED: RuleText(
        reason="the profile doesn't list this path for this host",
        hint="Request a listed path in plain form: no .., // or escaped slashes.",
    ),
    NetworkRule.HOST_MISMATCH: RuleText(
        reason="the Host header isn't the target's host", hint="Leave the Host header to the client."
    ),
    NetworkRule.ADDRESS_NOT_PUBLIC: RuleText(
        reason="the name has no public address",
        hint="Use a host with a public address; others can't be reached.",
    ),
    NetworkRule.NOT_TLS: RuleText(
        reason="the data after CONNECT isn't TLS", hint="Use https, or http without CONNECT."
    ),
    NetworkRule.HELLO_MALFORMED: RuleText(reason="the ClientHello isn't valid", hint=_PLAIN_CLIENT_HINT),
    NetworkRule.HELLO_FRAGMENTED: RuleText(
        reason="the ClientHello has too many records", hint=_PLAIN_CLIENT_HINT
    ),
    NetworkRule.SNI_MISSING: RuleText(
        reason="the ClientHello names no host", hint="Pass the host's name to the TLS library."
    ),
    NetworkRule.SNI_MISMATCH: RuleText(
        reason="the ClientHello names another host than CONNECT", hint=_ONE_HOST_HINT
    ),
    NetworkRule.SNI_ENCRYPTED: RuleText(
        reason="the ClientHello may hide another host's name",
        hint="Turn off encrypted ClientHello in the TLS library.",
    ),
    NetworkRule.HTTP_MALFORMED: RuleText(reason="the request isn't HTTP/1.1", hint=_PLAIN_CLIENT_HINT),
    NetworkRule.FRAMING_AMBIGUOUS: RuleText(
        reason="the request states its length twice",
        hint="Send either Content-Length or Transfer-Encoding, once.",
    ),
    NetworkRule.TOO_SLOW: RuleText(
        reason="the request didn't arrive in time",
        hint="Send the request at once, and close idle connections.",
    ),
    NetworkRule.TOO_MANY_CONNECTIONS: RuleText(
        reason="the attempt has reached its limit of connections",
        hint="Make fewer requests, or ask an operator to raise the limits in [egress].",
    ),
    NetworkRule.TOO_MANY_BYTES: RuleText(
        reason="the attempt has reached its limit of bytes", hint=_SEND_LESS_HINT
    ),
}

TEXT_BY_TROUBLE: Mapping[NetworkTrouble, str] = {
    NetworkTrouble.NOT_RESOLVED: "the name has no address",
    NetworkTrouble.UNREACHABLE: "the host refused the connection, or can't be reached",
    NetworkTrouble.TIMED_OUT: "the host didn't answer in time",
    NetworkTrouble.BROKEN_OFF: "the connection was aborted",
    NetworkTrouble.IDLE: "the connection was idle for too long",
    NetworkTrouble.RELAY_FULL: ("the daemon's relay is full for this user; retry later"),
}


def select_hook_rule(mode: NetworkMode) -> NetworkRule:
    """Return the rule under which the hook in the guest's process denies an access in this mode."""
    return NetworkRule.NOT_PROXIED if mode is NetworkMode.ALLOWLIST else NetworkRule.BLOCKED


_ERROR_TYPES = frozenset(
    {
        "ClientConnectorError", "ClientHttpProxyError", "ClientProxyConnectionError", "ConnectError",
        "ConnectTimeout", "ConnectTimeoutError", "ConnectionError", "ConnectionRefusedError",
        "ConnectionResetError", "MaxRetryError", "NameResolutionError", "NewConnectionError", "ProxyError",
        "ReadTimeout", "RemoteDisconnected", "SSLError", "URLError", "gaierror",
    }
)  # fmt: skip
_ADDRESS_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"host='(?P<host>[^'\s]{1,253})', port=(?P<port>\d{1,5})",
        r"[Cc]onnect to host (?P<host>[^\s:]{1,253}):(?P<port>\d{1,5})",
        r"\('(?P<host>[^'\s]{1,253})', (?P<port>\d{1,5})\)",
        r"https?://(?P<host>[^\s/:'\"\\]{1,253})(?::(?P<port>\d{1,5}))?",
    )
)
_HINT_PREFIX = "The code accesses the network"
_HINT = (
    f"{TEXT_BY_RULE[NetworkRule.BLOCKED].hint} It then reaches listed hosts, "
    "with a client that reads HTTP_PROXY and HTTPS_PROXY."
)


_MOCK_BY_LIBRARY = {
    "httpx": "httpx.Client(transport=httpx.MockTransport(handler))",
    "aiohttp": "unittest.mock.AsyncMock instead of the session",
    "requests": 'unittest.mock.patch("requests.get"), or a patch of the session\'s method',
}
"""How to mock the responses of each client library."""


def suggest_network_fix(error_type: str, message: str, text: str = "") -> str | None:
    """Return the fix for a network exception, or None for other exceptions.

    Args:
        error_type: the exception's class.
        message: the exception's text.
        text: the source that raised the exception. If this is a test, the fix can be to mock a client's
            responses.
    """
    if error_type.rpartition(".")[2] not in _ERROR_TYPES:
        return None
    place = _parse_address(message)
    reaches = f"{_HINT_PREFIX}{f' ({place})' if place else ''}."
    client = next((name for name in _MOCK_BY_LIBRARY if name in text), None)
    if client is not None and "def test_" in text:
        return f"{reaches} In a test, fake the client's answers: {_MOCK_BY_LIBRARY[client]}."
    return f"{reaches} {_HINT}"


def is_network_hint(suggestion: str | None) -> bool:
    """Return whether `suggest_network_fix` produced this suggestion."""
    return suggestion is not None and suggestion.startswith(_HINT_PREFIX)


def _parse_address(message: str) -> str | None:
    for pattern in _ADDRESS_PATTERNS:
        if (match := pattern.search(message)) is not None:
            port = match["port"]
            return match["host"] + (f":{port}" if port else "")
    return None


_TIMEOUT_RULES = frozenset({"sandbox.timeout", "tests.hung"})
_WAITING_TROUBLES = frozenset({NetworkTrouble.IDLE, NetworkTrouble.TIMED_OUT, NetworkTrouble.RELAY_FULL})
_UNFINISHED = "hadn't completed its answer when the time was up"
_USE_PROXY_HINT = (
    "Under this profile, request only listed hosts, with a client that reads HTTP_PROXY and "
    "HTTPS_PROXY; for aiohttp: trust_env=True."
)
_SET_TIMEOUT_HINT = "Set a client timeout that is shorter than the unit's, and handle its exception."


def add_network_facts(judgement: Judgement, result: RunResult) -> Judgement:
    """Return a judgement whose suggestions name the accesses that hung or failed in this run.

    Without such accesses, a network exception's suggestion tells how to use the proxy.
    """
    waited = _get_last(
        event
        for event in _iter_overdue_accesses(result)
        if not event.finished or event.trouble in _WAITING_TROUBLES
    )
    failed = _get_last(event for unit in result.units for event in unit.network if event.trouble is not None)
    stages = {
        stage: tuple(_reword_finding(finding, waited, failed) for finding in findings)
        for stage, findings in judgement.stage_findings.items()
    }
    return replace(judgement, stage_findings=stages)


def _reword_finding(finding: Finding, waited: NetworkEvent | None, failed: NetworkEvent | None) -> Finding:
    if finding.rule in _TIMEOUT_RULES and waited is not None:
        return replace(finding, suggestion=f"{_describe_access(waited)}. {_SET_TIMEOUT_HINT}")
    if is_network_hint(finding.suggestion):
        return replace(
            finding, suggestion=f"{_describe_access(failed)}." if failed is not None else _USE_PROXY_HINT
        )
    return finding


def _iter_overdue_accesses(result: RunResult) -> Iterator[NetworkEvent]:
    """Yield the allowed accesses by units that timed out."""
    for unit in result.units:
        if unit.outcome.cause is Cause.TIMEOUT:
            yield from (event for event in unit.network if event.allowed)


def _describe_access(event: NetworkEvent) -> str:
    place = event.host if event.port is None else f"{event.host}:{event.port}"
    return (
        f"{place} {_UNFINISHED}"
        if event.trouble is None
        else f"{place}: {TEXT_BY_TROUBLE[NetworkTrouble(event.trouble)]}"
    )


def _get_last(events: Iterable[NetworkEvent]) -> NetworkEvent | None:
    return next(iter([*events][-1:]), None)
