"""Describes what a policy allows: what may be imported, what can be reached."""

from __future__ import annotations

from collections.abc import Iterator

from assayd.model.policy import ExecutionPolicy, ImportMode, NetworkMode

_MOST_HOSTS = 20


def allowances(policy: ExecutionPolicy | None, *, offer: str | None = None) -> Iterator[str]:
    """Return what may be imported and reached; nothing without a policy.

    Args:
        policy: the effective one.
        offer: what the image has, where imports are free.
    """
    if policy is None:
        return
    imports = policy.imports
    if imports.mode is ImportMode.ENFORCE:
        allowed = sorted(module for module in imports.allowed if imports.allows(module))
        yield f"Import only: {', '.join(allowed) or 'nothing'}."
    elif offer is not None:
        added = "" if policy.image is None else f", and what image {policy.image} adds to it"
        yield f"The image has {offer}{added}."
    hosts = sorted(policy.network.hosts)
    if policy.network.mode is NetworkMode.BLOCKED or not hosts:
        yield "There is no network."
    else:
        more = len(hosts) - _MOST_HOSTS
        shown = ", ".join(hosts[:_MOST_HOSTS]) + (f" and {more} more" if more > 0 else "")
        ports = ", ".join(map(str, sorted(policy.network.ports)))
        yield f"The network leads to these hosts only: {shown} (port {ports})."
