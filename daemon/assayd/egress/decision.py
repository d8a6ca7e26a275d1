"""Decides whether an access is allowed, with one pure function that is called for each new fact.

    target          the request line
    named           the Host header                            (plain HTTP)
    addresses       the resolved addresses
    server_name     the server name of the TLS client          (after CONNECT)

An unknown fact is None and isn't checked. The first rule that denies the access is decisive. The tests are
generated from the table of rules in docs/egress-decisions.md. The response to guest code is HTTP with the
rule's name, or a TLS alert.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assayd.egress.target import InvalidTarget, Public, Target, is_public, is_target_host
from assayd.findings.network_rules import TROUBLES, WORDINGS, NetworkRule, NetworkTrouble
from assayd.model.hosts import fold_host
from assayd.model.policy import HttpRule, NetworkMode, NetworkPolicy
from assayd.model.run import AccessProtocol


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
        return WORDINGS[self.rule].hint


def decide_access(policy: NetworkPolicy, ask: AccessRequest, public: Public = is_public) -> Decision:
    """Decide on an access, based on all known facts.

    Args:
        policy: the attempt's network policy.
        ask: the known facts of the access.
        public: returns whether an address counts as public.
    """
    refusals = (*_target_denials(policy, ask), *_address_denials(ask, public), *_server_name_denials(ask))
    rule = next(iter(refusals), NetworkRule.LISTED)
    allowed = tuple(address for address in ask.addresses or () if public(address))
    return Decision(rule=rule, reason=WORDINGS[rule].reason, addresses=allowed)


def _target_denials(policy: NetworkPolicy, ask: AccessRequest) -> Iterator[NetworkRule]:
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
        yield from _http_denials(target, rules)
    if target.via is AccessProtocol.HTTP and ask.named is not None and not is_target_host(ask.named, target):
        yield NetworkRule.HOST_MISMATCH


def _http_denials(target: Target, rules: tuple[HttpRule | None, ...]) -> Iterator[NetworkRule]:
    """Yield the denials by the entries' HTTP rules; a single entry that allows the request is enough."""
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


def _address_denials(ask: AccessRequest, public: Public) -> Iterator[NetworkRule]:
    if ask.addresses and not any(public(address) for address in ask.addresses):
        yield NetworkRule.ADDRESS_NOT_PUBLIC


def _server_name_denials(ask: AccessRequest) -> Iterator[NetworkRule]:
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
"""A TLS record: alert, fatal, access_denied."""

_STATUS = {
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


class AccessNotServed(Exception):
    """An exception that ends an access that was denied or failed. It never leaves the package `egress`."""

    def __init__(self, why: NetworkRule | NetworkTrouble, reason: str, hint: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.reason = reason
        self.hint = hint


def refused(decision: Decision) -> AccessNotServed:
    """Return the exception for an access that the policy denies."""
    return AccessNotServed(decision.rule, decision.reason, decision.hint)


def rule_refusal(rule: NetworkRule, detail: str = "") -> AccessNotServed:
    """Return the exception for a rule outside the allowlist. Args: `detail` is trusted text."""
    reason = WORDINGS[rule].reason + (f" ({detail})" if detail else "")
    return AccessNotServed(rule, reason, WORDINGS[rule].hint)


def failed(trouble: NetworkTrouble) -> AccessNotServed:
    """Return the exception for an allowed access that failed."""
    return AccessNotServed(trouble, TROUBLES[trouble])


def answer(end: AccessNotServed, *, with_body: bool = True) -> bytes:
    """Return the HTTP response. Its reason phrase is the rule, since clients show it in their errors."""
    default = _REFUSED if isinstance(end.why, NetworkRule) else _TROUBLE
    body = f"{end.why}: {end.reason}\n{end.hint}\n".encode() if with_body else b""
    head = (
        f"HTTP/1.1 {_STATUS.get(end.why, default)} {end.why}",
        f"{RULE_HEADER.decode()}: {end.why}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + body
