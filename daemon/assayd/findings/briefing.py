"""Parts of prompts that all kinds share: answer formats, examples, and the policy's allowances.

The allowances are imports, hosts, and rejected names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assayd.model.policy import ExecutionPolicy, ImportMode, NetworkMode
from assayd.model.prompting import Example, Proposal, Surrounding
from assayd.model.submission import Sample

_FORMS = {
    "code": '"<the whole text>"',
    "files": '{"<file name>": "<its whole text>", …}',
    "steps": '[{"name": "…", "type": "bash or sql", "content": "…"}, …]',
}


def answer_form(form: str) -> str:
    """Return the JSON form of an answer: ``code``, ``files`` or ``steps``."""
    return f'{{"{form}": {_FORMS[form]}, "reason": "<what it does, in a sentence or two>"}}'


def code_example(sample: Sample, *, request: str, reason: str, field: str = "code") -> Example:
    """Return an example from a validated sample. Its payload has one text, in `field`, and a context."""
    context = {name: value for name, value in sample.payload.items() if name != field}
    code = str(sample.payload[field]).strip() + "\n"
    return Example(request=request, context=context, answer=Proposal(code=code), reason=reason)


def file_head(path: str, content: bytes, most: int) -> Surrounding:
    """Return the beginning of a file with its path in the sandbox and the size of the shown part."""
    size = f"{len(content)} bytes" if len(content) <= most else f"first {most} of {len(content)} bytes"
    return Surrounding(title=f"file {path} ({size})", text=content[:most].decode("utf-8", "replace"))


_MOST_HOSTS = 20


def allowances(
    policy: ExecutionPolicy | None,
    *,
    offer: str | None = None,
    also: Sequence[str] = (),
    imports: bool = True,
) -> Iterator[str]:
    """Yield sentences about what code can import and reach; none without a policy.

    Args:
        policy: the effective policy.
        offer: the modules of the image, if imports aren't restricted.
        also: further modules that code can import.
        imports: whether imports matter; they don't for a bash step.
    """
    if policy is None:
        return
    if imports:
        yield from _imports(policy, offer, also)
    hosts = sorted(policy.network.hosts)
    if policy.network.mode is NetworkMode.BLOCKED or not hosts:
        yield "Network access is blocked."
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
