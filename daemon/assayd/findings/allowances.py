"""States what a policy allows: imports, hosts, and the names that it refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assayd.model.policy import ExecutionPolicy, ImportMode, NetworkMode

_MOST_HOSTS = 20


def allowances(
    policy: ExecutionPolicy | None,
    *,
    offer: str | None = None,
    also: Sequence[str] = (),
    imports: bool = True,
) -> Iterator[str]:
    """Return what may be imported and reached; nothing without a policy.

    Args:
        policy: the effective one.
        offer: what the image has, where imports are free.
        also: further modules that may be imported.
        imports: whether imports matter: not to a bash step.
    """
    if policy is None:
        return
    if imports:
        yield from _imports(policy, offer, also)
    hosts = sorted(policy.network.hosts)
    if policy.network.mode is NetworkMode.BLOCKED or not hosts:
        yield "There is no network."
    else:
        more = len(hosts) - _MOST_HOSTS
        shown = ", ".join(hosts[:_MOST_HOSTS]) + (f" and {more} more" if more > 0 else "")
        ports = ", ".join(map(str, sorted(policy.network.ports)))
        yield f"Only these hosts can be reached: {shown} (port {ports})."


def _imports(policy: ExecutionPolicy, offer: str | None, also: Sequence[str]) -> Iterator[str]:
    imports = policy.imports
    if imports.mode is ImportMode.ENFORCE:
        allowed = sorted({*also, *(module for module in imports.allowed if imports.allows(module))})
        yield f"Import only: {', '.join(allowed) or 'nothing'}."
        if imports.denied and imports.enforce_forbidden:
            yield f"Not allowed: {', '.join(sorted(imports.denied))}."
    elif offer is not None:
        added = "" if policy.image is None else f", and what image {policy.image} adds to it"
        yield f"The image has {offer}{added}."
