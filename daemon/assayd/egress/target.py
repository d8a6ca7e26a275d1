"""Parses the target that guest code requests from the proxy, with pure functions.

Only two forms are accepted: ``host:port`` after CONNECT, and an absolute ``http://`` URL after any other
method. Any text in which other parsers could read another host (user names, backslashes, fragments) is
rejected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from assayd.findings.network_rules import NetworkRule
from assayd.model.hosts import fold, is_address
from assayd.model.run import AccessProtocol

HTTP_PORT = 80

_URL = re.compile(r"http://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?", re.IGNORECASE)
_PORT = re.compile(r"[0-9]{0,5}")
_SHOWN = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-fxX:.\[\]]{1,64}")
"""The part of an invalid host that can be shown: it contains no user name, password or header."""
_NOT_IN_A_HOST = re.compile(r"[@\\%\s,;]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The requested target. `host` is folded; `path` excludes the query, `origin` includes it."""

    via: AccessProtocol
    host: str
    port: int
    method: str = ""
    path: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoTarget:
    """An invalid target: the rule that rejects it, and its `host` and `port` if they can be shown."""

    via: AccessProtocol
    rule: NetworkRule
    host: str = ""
    port: int | None = None
    method: str = ""


def read_target(method: str, text: str) -> Target | NoTarget:
    """Parse the target of a request line."""
    if method == "CONNECT":
        return _parse_target(AccessProtocol.TLS, method, text, None)
    match = _URL.fullmatch(text)
    if match is None:
        return NoTarget(via=AccessProtocol.HTTP, rule=NetworkRule.TARGET_INVALID, method=method)
    path = match["path"] or "/"
    place = _parse_target(AccessProtocol.HTTP, method, match["authority"], HTTP_PORT)
    if isinstance(place, NoTarget):
        return place
    return Target(
        via=AccessProtocol.HTTP,
        host=place.host,
        port=place.port,
        method=method,
        path=path,
        origin=path + (match["query"] or ""),
    )


def names_target(header: str, target: Target) -> bool:
    """Return whether a Host header names the target's host and port."""
    place = _parse_target(target.via, "", header, HTTP_PORT)
    return isinstance(place, Target) and (place.host, place.port) == (target.host, target.port)


def _parse_target(
    via: AccessProtocol, method: str, authority: str, default_port: int | None
) -> Target | NoTarget:
    host, port = _split_authority(authority, default_port)
    if (rule := _refusing_rule(host, port)) is None:
        try:
            return Target(via=via, host=fold(host), port=port or 0, method=method)
        except ValueError:
            rule = NetworkRule.HOST_INVALID
    shown = host.rpartition("@")[2]
    if not _SHOWN.fullmatch(shown):
        shown = ""
    return NoTarget(via=via, rule=rule, host=shown, port=port, method=method)


def _refusing_rule(host: str, port: int | None) -> NetworkRule | None:
    """Return the rule that rejects this host; None if the host is valid."""
    if "@" in host:
        return NetworkRule.USER_IN_URL
    if not host:
        return NetworkRule.HOST_MISSING
    if port is None or not 0 < port < 2**16 or _NOT_IN_A_HOST.search(host):
        return NetworkRule.TARGET_INVALID
    return NetworkRule.ADDRESS_LITERAL if is_address(host.removesuffix(".").lower()) else None


def _split_authority(authority: str, default_port: int | None) -> tuple[str, int | None]:
    """Split a host from its port; without a port, the whole string is the host.

    An empty port is treated like a missing one (RFC 3986, 3.2.3).
    """
    host, colon, port = authority.rpartition(":")
    if not colon or not _PORT.fullmatch(port):
        return authority, default_port
    return host, int(port) if port else default_port
