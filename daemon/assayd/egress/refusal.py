"""The response to guest code after a denial or a failure: HTTP with the rule's name, or a TLS alert."""

from __future__ import annotations

from assayd.egress.decision import Decision
from assayd.findings.network_rules import TROUBLES, WORDINGS, NetworkRule, NetworkTrouble

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


class NotServed(Exception):
    """An exception that ends an access that was denied or failed. It never leaves the package `egress`."""

    def __init__(self, why: NetworkRule | NetworkTrouble, reason: str, hint: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.reason = reason
        self.hint = hint


def refused(decision: Decision) -> NotServed:
    """Return the exception for an access that the policy denies."""
    return NotServed(decision.rule, decision.reason, decision.hint)


def refused_by(rule: NetworkRule, detail: str = "") -> NotServed:
    """Return the exception for a rule outside the allowlist. Args: `detail` is trusted text."""
    reason = WORDINGS[rule].reason + (f" ({detail})" if detail else "")
    return NotServed(rule, reason, WORDINGS[rule].hint)


def failed(trouble: NetworkTrouble) -> NotServed:
    """Return the exception for an allowed access that failed."""
    return NotServed(trouble, TROUBLES[trouble])


def answer(end: NotServed, *, with_body: bool = True) -> bytes:
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
