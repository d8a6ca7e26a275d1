"""`assay policy check`: what profiles come to, and what is wrong with one, as a daemon would have it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from assayd.errors import RequestError
from assayd.model.policy import HttpRule, NetworkMode, NetworkPolicy
from assayd.tomlfile import FileError, Problem
from assayd_client import Document, PlainClient

CODE = "policy.file"


def check(client: PlainClient, file: Path | None) -> Sequence[Document]:
    """Return what a file comes to beside the daemon's profiles, or what those themselves come to.

    Raises: FileError with every problem.
    """
    if file is None:
        profiles: Sequence[Document] = client.policies()["policies"]
        return profiles
    try:
        content = file.read_bytes()
    except OSError as error:
        raise RequestError("file.unreadable", f"{file}: {error.strerror}") from error
    answer = client.check_policy(file.stem, content)
    if answer["policy"] is None:
        raise FileError(CODE, [_problem(file, problem) for problem in answer["problems"]])
    return [answer["policy"]]


def check_here(file: Path | None) -> Sequence[Document]:
    """Return the same without a daemon, from the settings and profiles of this machine.

    Raises: FileError with every problem.
    """
    from assayd.policies import describe
    from assayd.settings import load_settings
    from assayd.wiring.profiles import load_profiles

    policies = load_profiles(load_settings())
    found = [policies.try_file(file)] if file is not None else map(policies.get, policies.names)
    return [describe(policy, egress=policies.egress) for policy in found]


def remarks(policy: Document) -> Iterator[str]:
    """Return what a profile's author should know: what is clamped, what is refused, what a list allows."""
    for clamp in policy["clamped"]:
        asked, given = clamp["requested"], clamp["effective"]
        yield f"{policy['name']}: {clamp['field']} = {asked:g} is clamped to {given:g} by the bounds"
    if not policy["enforceable"]:
        yield f"{policy['name']}: every submission is refused: {policy['unenforceable_reason']}"
    yield from _allowances(policy["name"], network_of(policy))


def network_of(policy: Document) -> NetworkPolicy:
    """Return what a profile, as the daemon shows it, allows of the network."""
    document = policy["network"]
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


def _allowances(name: str, network: NetworkPolicy) -> Iterator[str]:
    """Return what an allowlist allows, a line for each entry; none without an allowlist."""
    if network.mode is not NetworkMode.ALLOWLIST:
        return
    if not network.hosts:
        yield f"{name}: the allowlist is empty, every access to the network is refused"
    ports = ", ".join(str(port) for port in sorted(network.ports))
    for entry in sorted(network.hosts):
        hosts = f"every name below {entry[1:]}" if entry.startswith(".") else entry
        yield f"{name}: {hosts}, port {ports}: {_manner(network.http.get(entry))}"


def _manner(rule: HttpRule | None) -> str:
    if rule is None:
        return "TLS, and plain HTTP with any method and path"
    methods = ", ".join(sorted(rule.methods)) or "any method"
    return f"plain HTTP only, {methods}, {', '.join(sorted(rule.paths)) or 'any path'}"


def _problem(file: Path, problem: Document) -> Problem:
    return Problem(path=file, line=problem["line"], key=problem["key"], message=problem["message"])
