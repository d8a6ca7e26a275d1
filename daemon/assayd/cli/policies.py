"""`assay policy check` and `explain`: profiles as the daemon on this machine would load them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from assayd.egress.decision import Ask, decide
from assayd.egress.target import read_target
from assayd.errors import RequestError
from assayd.model.policy import ExecutionPolicy, HttpRule, NetworkMode
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
    """Say what a profile's allowlist allows, a line for each entry; nothing where there is no allowlist."""
    network = policy.network
    if network.mode is not NetworkMode.ALLOWLIST:
        return
    if not network.hosts:
        yield f"{policy.name}: the allowlist is empty, every access to the network is refused"
    ports = ", ".join(str(port) for port in sorted(network.ports))
    for entry in sorted(network.hosts):
        hosts = f"every name below {entry[1:]}" if entry.startswith(".") else entry
        yield f"{policy.name}: {hosts}, port {ports}: {_manner(network.http.get(entry))}"


def explain(profile: str, url: str, method: str) -> tuple[bool, str]:
    """Return whether a profile lets code reach a URL, and say why.

    Raises: RequestError for a profile or URL that is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"}:
        raise RequestError("usage", f"{url!r} is neither an http:// nor an https:// URL")
    if parts.scheme == "https":
        place = parts.netloc if ":" in parts.netloc else f"{parts.netloc}:{HTTPS_PORT}"
        target = read_target("CONNECT", place)
    else:
        target = read_target(method, url)
    decision = decide(_policies().get(profile).network, Ask(target=target))
    if decision.allowed:
        when = "The addresses of the host are judged when it is connected to."
        return True, f"{profile} allows {url}: {decision.rule} ({decision.reason}). {when}"
    return False, f"{profile} refuses {url}: {decision.rule} ({decision.reason}). {decision.hint}"


def _manner(rule: HttpRule | None) -> str:
    if rule is None:
        return "TLS, and plain HTTP with any method and path"
    methods = ", ".join(sorted(rule.methods)) or "any method"
    return f"plain HTTP only, {methods}, {', '.join(sorted(rule.paths)) or 'any path'}"


def _policies() -> PolicySet:
    return load_profiles(load_settings())
