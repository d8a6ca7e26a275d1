"""`assay policy explain`: whether a profile, as the daemon has it, lets code reach a URL."""

from __future__ import annotations

from urllib.parse import urlsplit

from assayd.egress.decision import AccessRequest, decide
from assayd.egress.target import NoTarget, Target, read_target
from assayd.errors import RequestError
from assayd_client import Document
from assayd_client.cli.policy_check import network_of

HTTPS_PORT = 443


def explain(policy: Document, url: str, method: str) -> tuple[bool, str]:
    """Return whether a profile, as the daemon shows it, lets code reach a URL, and say why.

    Raises: RequestError for a URL that is none.
    """
    profile = policy["name"]
    target = _target(url, method)
    decision = decide(network_of(policy), AccessRequest(target=target))
    if decision.allowed and not policy["enforceable"]:
        return False, f"{profile} refuses every submission: {policy['unenforceable_reason']}."
    if decision.allowed:
        when = "The addresses of the host are judged when it is connected to."
        return True, f"{profile} allows {url}: {decision.rule} ({decision.reason}). {when}"
    return False, f"{profile} refuses {url}: {decision.rule} ({decision.reason}). {decision.hint}"


def _target(url: str, method: str) -> Target | NoTarget:
    """Return what a client asks the relay for to reach a URL."""
    try:
        parts = urlsplit(url)
    except ValueError as problem:
        raise RequestError("usage", f"{url!r} isn't a URL: {problem}") from problem
    if parts.scheme == "http":
        return read_target(method, url.partition("#")[0])
    if parts.scheme == "https":
        place = parts.netloc.removesuffix(":")
        bare = place.endswith("]") or ":" not in place.rpartition("@")[2]
        return read_target("CONNECT", f"{place}:{HTTPS_PORT}" if bare else place)
    raise RequestError("usage", f"{url!r} is neither an http:// nor an https:// URL")
