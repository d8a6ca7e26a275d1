"""`assay policy check`: profiles as the daemon on this machine would load them; `explain`: as it has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from assayd.client import Document
from assayd.egress.decision import AccessRequest, decide
from assayd.egress.target import NoTarget, Target, read_target
from assayd.errors import RequestError
from assayd.model.policy import ExecutionPolicy, HttpRule, NetworkMode, NetworkPolicy
from assayd.policies import PolicySet
from assayd.settings import load_settings
from assayd.wiring.profiles import load_profiles

HTTPS_PORT = 443


def check(file: Path | None) -> Sequence[ExecutionPolicy]:
    """Return what a file comes to beside the profiles in use, or what those themselves come to.

    Raises: FileError with every problem.
    """
    policies = _policies()
    return [policies.try_file(file)] if file is not None else [policies.get(name) for name in policies.names]


def allowances(policy: ExecutionPolicy) -> Iterator[str]:
    """Return what a profile's allowlist allows, a line for each entry; none without an allowlist."""
    network = policy.network
    if network.mode is not NetworkMode.ALLOWLIST:
        return
    if not network.hosts:
        yield f"{policy.name}: the allowlist is empty, every access to the network is refused"
    ports = ", ".join(str(port) for port in sorted(network.ports))
    for entry in sorted(network.hosts):
        hosts = f"every name below {entry[1:]}" if entry.startswith(".") else entry
        yield f"{policy.name}: {hosts}, port {ports}: {_manner(network.http.get(entry))}"


def explain(policy: Document, url: str, method: str) -> tuple[bool, str]:
    """Return whether a profile, as the daemon shows it, lets code reach a URL, and say why.

    Raises: RequestError for a URL that is none.
    """
    profile = policy["name"]
    target = _target(url, method)
    decision = decide(_network(policy["network"]), AccessRequest(target=target))
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
        raise RequestError("usage", f"{url!r} is no URL: {problem}") from problem
    if parts.scheme == "http":
        return read_target(method, url.partition("#")[0])
    if parts.scheme == "https":
        place = parts.netloc.removesuffix(":")
        bare = place.endswith("]") or ":" not in place.rpartition("@")[2]
        return read_target("CONNECT", f"{place}:{HTTPS_PORT}" if bare else place)
    raise RequestError("usage", f"{url!r} is neither an http:// nor an https:// URL")


def _network(document: Document) -> NetworkPolicy:
    rules = {
        entry: HttpRule(methods=frozenset(rule["methods"]), paths=frozenset(rule["paths"]))
        for entry, rule in document["http"].items()
    }
    return NetworkPolicy(
        mode=NetworkMode(document["mode"]),
        hosts=frozenset(document["hosts"]),
        ports=frozenset(document["ports"]),
        connect_timeout_s=document["connect_timeout_s"],
        http=rules,
    )


def _manner(rule: HttpRule | None) -> str:
    if rule is None:
        return "TLS, and plain HTTP with any method and path"
    methods = ", ".join(sorted(rule.methods)) or "any method"
    return f"plain HTTP only, {methods}, {', '.join(sorted(rule.paths)) or 'any path'}"


def _policies() -> PolicySet:
    return load_profiles(load_settings())
