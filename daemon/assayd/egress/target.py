"""What guest code asks a proxy for, read from the first line of its request. Pure.

Only two forms are taken: ``host:port`` after CONNECT, and an absolute ``http://`` URL after anything else.
What other readers might take for another host (user names, backslashes, fragments) is no target.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from assayd.findings.network_rules import NetworkRule
from assayd.model.hosts import fold, is_address
from assayd.model.run import Via

HTTP_PORT = 80

_URL = re.compile(r"http://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|.*?)(?::(?P<port>[0-9]{1,5}))?", re.DOTALL)
_NOT_IN_A_HOST = re.compile(r"[@\\%\s,;]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is asked for. `host` is folded; `path` has no query, `origin` has it."""

    via: Via
    host: str
    port: int
    method: str = ""
    path: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoTarget:
    """What is asked for and is no target, by which rule; `host` and `port` as far as can be told."""

    via: Via
    rule: NetworkRule
    host: str = ""
    port: int | None = None
    method: str = ""


def read_target(method: str, text: str) -> Target | NoTarget:
    """Read the target of a request, as it stands in the request line."""
    if method == "CONNECT":
        return _place(Via.TLS, method, text, None)
    match = _URL.fullmatch(text)
    if match is None or not match["authority"]:
        return NoTarget(via=Via.HTTP, rule=NetworkRule.TARGET_INVALID, method=method)
    path = match["path"] or "/"
    place = _place(Via.HTTP, method, match["authority"], HTTP_PORT)
    if isinstance(place, NoTarget):
        return place
    return Target(
        via=Via.HTTP,
        host=place.host,
        port=place.port,
        method=method,
        path=path,
        origin=path + (match["query"] or ""),
    )


def same_place(header: str, target: Target) -> bool:
    """Return whether a Host header names the target's host and port."""
    place = _place(target.via, "", header, HTTP_PORT)
    return isinstance(place, Target) and (place.host, place.port) == (target.host, target.port)


def _place(via: Via, method: str, authority: str, default_port: int | None) -> Target | NoTarget:
    match = _AUTHORITY.fullmatch(authority)
    text = match["port"] if match else None
    host = (match["host"] if match else authority)[:253]
    port = int(text) if text is not None else default_port
    if port is None or not 0 < port < 2**16 or _NOT_IN_A_HOST.search(host):
        return NoTarget(via=via, rule=NetworkRule.TARGET_INVALID, host=host, port=port, method=method)
    if is_address(host.removesuffix(".").lower()):
        return NoTarget(via=via, rule=NetworkRule.ADDRESS_LITERAL, host=host, port=port, method=method)
    try:
        return Target(via=via, host=fold(host), port=port, method=method)
    except ValueError:
        return NoTarget(via=via, rule=NetworkRule.HOST_INVALID, host=host, port=port, method=method)
