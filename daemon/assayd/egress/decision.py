"""Parses the target of an access, and decides with one pure function whether the access is allowed.

The function is called for each new fact:

    target          the request line
    named           the Host header                            (plain HTTP)
    addresses       the resolved addresses
    server_name     the server name of the TLS client          (after CONNECT)

An unknown fact is None and isn't checked. The first rule that denies the access is decisive. The tests are
generated from the table of rules in docs/egress-decisions.md. The response to guest code is HTTP with the
rule's name, or a TLS alert.

Only two forms of target are accepted: ``host:port`` after CONNECT, and an absolute ``http://`` URL after any
other method. Any text in which other parsers could read another host (user names, backslashes, fragments) is
rejected.

The table of public addresses is separate, because Python 3.11's `ipaddress` treats 64:ff9b::/96, 2002::/16
and fec0::/10 as global. In IPv6, only 2000::/3 is assigned to global unicast; therefore, all other addresses
are rejected.

Source: the special-purpose address registries of IANA; RFC 6890, 6052, 3056, 4380.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address

from assayd.findings.network_rules import TEXT_BY_RULE, TEXT_BY_TROUBLE, NetworkRule, NetworkTrouble
from assayd.model.hosts import fold_host, is_address
from assayd.model.policy import HttpRule, NetworkMode, NetworkPolicy
from assayd.model.run import AccessProtocol

Public = Callable[[str], bool]
"""Returns whether an address, in a resolver's notation, is public."""

_NON_PUBLIC_IPV4 = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared address space of carriers (NAT)
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local; cloud metadata services
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
_GLOBAL_UNICAST_6 = IPv6Network("2000::/3")
_NON_PUBLIC_IPV6 = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarking
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: embeds an IPv4 address
        "3fff::/20",  # documentation
    )
)


def is_public(text: str) -> bool:
    """Return whether a string is a public address."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if address.version == 4:
        return not any(address in block for block in _NON_PUBLIC_IPV4)
    return address in _GLOBAL_UNICAST_6 and not any(address in block for block in _NON_PUBLIC_IPV6)


HTTP_PORT = 80

_URL = re.compile(r"http://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?", re.IGNORECASE)
_PORT = re.compile(r"[0-9]{0,5}")
_SHOWN_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-fxX:.\[\]]{1,64}")
"""The part of an invalid host that can be shown: it contains no user name, password or header."""
_INVALID_HOST_PATTERN = re.compile(r"[@\\%\s,;]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The requested target. `host` is folded. `path` excludes the query, `origin` includes it."""

    via: AccessProtocol
    host: str
    port: int
    method: str = ""
    path: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidTarget:
    """An invalid target: the rule that rejects it, and its `host` and `port` if they can be shown."""

    via: AccessProtocol
    rule: NetworkRule
    host: str = ""
    port: int | None = None
    method: str = ""


def parse_target(method: str, text: str) -> Target | InvalidTarget:
    """Parse the target of a request line.

    If it is invalid, return the rule that rejects it, as an InvalidTarget.
    """
    if method == "CONNECT":
        return _parse_target(AccessProtocol.TLS, method, text, None)
    match = _URL.fullmatch(text)
    if match is None:
        return InvalidTarget(via=AccessProtocol.HTTP, rule=NetworkRule.TARGET_INVALID, method=method)
    path = match["path"] or "/"
    place = _parse_target(AccessProtocol.HTTP, method, match["authority"], HTTP_PORT)
    if isinstance(place, InvalidTarget):
        return place
    return Target(
        via=AccessProtocol.HTTP,
        host=place.host,
        port=place.port,
        method=method,
        path=path,
        origin=path + (match["query"] or ""),
    )


def is_target_host(header: str, target: Target) -> bool:
    """Return whether a Host header names the target's host and port."""
    place = _parse_target(target.via, "", header, HTTP_PORT)
    return isinstance(place, Target) and (place.host, place.port) == (target.host, target.port)


def _parse_target(
    via: AccessProtocol, method: str, authority: str, default_port: int | None
) -> Target | InvalidTarget:
    host, port = _split_authority(authority, default_port)
    if (rule := _find_rejecting_rule(host, port)) is None:
        try:
            return Target(via=via, host=fold_host(host), port=port or 0, method=method)
        except ValueError:
            rule = NetworkRule.HOST_INVALID
    shown = host.rpartition("@")[2]
    if not _SHOWN_PATTERN.fullmatch(shown):
        shown = ""
    return InvalidTarget(via=via, rule=rule, host=shown, port=port, method=method)


def _find_rejecting_rule(host: str, port: int | None) -> NetworkRule | None:
    """Return the rule that rejects this host, or None if the host is valid."""
    if "@" in host:
        return NetworkRule.USER_IN_URL
    if not host:
        return NetworkRule.HOST_MISSING
    if port is None or not 0 < port < 2**16 or _INVALID_HOST_PATTERN.search(host):
        return NetworkRule.TARGET_INVALID
    return NetworkRule.ADDRESS_LITERAL if is_address(host.removesuffix(".").lower()) else None


def _split_authority(authority: str, default_port: int | None) -> tuple[str, int | None]:
    """Split a host from its port. Without a port, return the whole string as the host, and the default port.

    An empty port is treated like a missing one (RFC 3986, 3.2.3).
    """
    host, colon, port = authority.rpartition(":")
    if not colon or not _PORT.fullmatch(port):
        return authority, default_port
    return host, int(port) if port else default_port


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """The known facts of an access. `server_name` can be the rule that explains why the name is missing."""

    target: Target | InvalidTarget
    named: str | None = None
    addresses: tuple[str, ...] | None = None
    server_name: str | NetworkRule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision so far, with the decisive rule and a reason that a person can read.

    `addresses` contains the allowed addresses.
    """

    rule: NetworkRule
    reason: str
    addresses: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Return whether the access is allowed so far."""
        return self.rule is NetworkRule.LISTED

    @property
    def hint(self) -> str:
        """Return the suggestion for fixing a denied access."""
        return TEXT_BY_RULE[self.rule].hint


def decide_access(policy: NetworkPolicy, ask: AccessRequest, public: Public = is_public) -> Decision:
    """Decide on an access, based on all known facts.

    Args:
        policy: the attempt's network policy.
        ask: the known facts of the access.
        public: returns whether an address counts as public.
    """
    refusals = (
        *_iter_target_denials(policy, ask),
        *_iter_address_denials(ask, public),
        *_iter_server_name_denials(ask),
    )
    rule = next(iter(refusals), NetworkRule.LISTED)
    allowed = tuple(address for address in ask.addresses or () if public(address))
    return Decision(rule=rule, reason=TEXT_BY_RULE[rule].reason, addresses=allowed)


def _iter_target_denials(policy: NetworkPolicy, ask: AccessRequest) -> Iterator[NetworkRule]:
    target = ask.target
    if policy.mode is not NetworkMode.ALLOWLIST:
        yield NetworkRule.BLOCKED
    if isinstance(target, InvalidTarget):
        yield target.rule
        return
    rules = tuple(policy.rules(target.host))
    if not rules:
        yield NetworkRule.NOT_LISTED
    elif target.port not in policy.ports:
        yield NetworkRule.PORT_NOT_LISTED
    else:
        yield from _iter_http_denials(target, rules)
    if target.via is AccessProtocol.HTTP and ask.named is not None and not is_target_host(ask.named, target):
        yield NetworkRule.HOST_MISMATCH


def _iter_http_denials(target: Target, rules: tuple[HttpRule | None, ...]) -> Iterator[NetworkRule]:
    """Yield the denials by the entries' HTTP rules.

    If any entry has no rule or allows the request, yield none.
    """
    held = [rule for rule in rules if rule is not None]
    if len(held) < len(rules):
        return
    if target.via is AccessProtocol.TLS:
        yield NetworkRule.HTTP_ONLY
        return
    usable = [rule for rule in held if rule.allows_method(target.method)]
    if not usable:
        yield NetworkRule.METHOD_NOT_LISTED
    elif not any(rule.allows_path(target.path) for rule in usable):
        yield NetworkRule.PATH_NOT_LISTED


def _iter_address_denials(ask: AccessRequest, public: Public) -> Iterator[NetworkRule]:
    if ask.addresses and not any(public(address) for address in ask.addresses):
        yield NetworkRule.ADDRESS_NOT_PUBLIC


def _iter_server_name_denials(ask: AccessRequest) -> Iterator[NetworkRule]:
    if isinstance(ask.server_name, NetworkRule):
        yield ask.server_name
    elif ask.server_name is not None and isinstance(ask.target, Target):
        if _fold_or_none(ask.server_name) != ask.target.host:
            yield NetworkRule.SNI_MISMATCH


def _fold_or_none(name: str) -> str | None:
    try:
        return fold_host(name)
    except ValueError:
        return None


RULE_HEADER = b"X-Assayd-Rule"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
ALERT = bytes((21, 3, 3, 0, 2, 2, 49))
"""A TLS record with the fatal alert access_denied."""

_STATUS_BY_RULE = {
    NetworkRule.HTTP_MALFORMED: 400,
    NetworkRule.TARGET_INVALID: 400,
    NetworkRule.USER_IN_URL: 400,
    NetworkRule.HOST_MISSING: 400,
    NetworkRule.FRAMING_AMBIGUOUS: 400,
    NetworkRule.TOO_SLOW: 408,
    NetworkRule.TOO_MANY_CONNECTIONS: 429,
    NetworkTrouble.TIMED_OUT: 504,
    NetworkTrouble.RELAY_FULL: 503,
}
_REFUSED, _TROUBLE = 403, 502


class AccessNotServedError(Exception):
    """An exception that ends an access that was denied or failed. It never leaves the package `egress`."""

    def __init__(self, why: NetworkRule | NetworkTrouble, reason: str, hint: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.reason = reason
        self.hint = hint


def refused(decision: Decision) -> AccessNotServedError:
    """Return the exception for an access that the policy denies."""
    return AccessNotServedError(decision.rule, decision.reason, decision.hint)


def build_rule_violation_error(rule: NetworkRule, detail: str = "") -> AccessNotServedError:
    """Return the exception for a rule outside the allowlist. `detail` must be trusted text."""
    reason = TEXT_BY_RULE[rule].reason + (f" ({detail})" if detail else "")
    return AccessNotServedError(rule, reason, TEXT_BY_RULE[rule].hint)


def failed(trouble: NetworkTrouble) -> AccessNotServedError:
    """Return the exception for an allowed access that failed."""
    return AccessNotServedError(trouble, TEXT_BY_TROUBLE[trouble])


def answer(end: AccessNotServedError, *, with_body: bool = True) -> bytes:
    """Return the HTTP response that reports a denied or failed access to guest code.

    The reason phrase is the rule, which clients show in errors.
    """
    default = _REFUSED if isinstance(end.why, NetworkRule) else _TROUBLE
    body = f"{end.why}: {end.reason}\n{end.hint}\n".encode() if with_body else b""
    head = (
        f"HTTP/1.1 {_STATUS_BY_RULE.get(end.why, default)} {end.why}",
        f"{RULE_HEADER.decode()}: {end.why}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + body
