"""A node as a submission: its inputs out of earlier results, and what a repair has to know of the others.

Pure. Results are in the contract's form, as a case's `result`; tagged values stay tagged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from assayd.guest.tagged import TAG, VALUE
from assayd.model.submission import RepairWish
from assayd.model.text_limits import shorten
from assayd_workflows.model import RESULT, Node, Plan, Reference

KIND = "code"
_SAMPLE_CHARS = 600
_CONTEXT_CHARS = 12_000


class NoSuchPart(Exception):
    """A result doesn't have the part that a reference names."""


def part_of(result: object, source: Reference) -> object:
    """Return the part of a result that a reference names. Raises: NoSuchPart."""
    found, done = result, f"{source.node}.{RESULT}"
    for step in source.path:
        inner = found
        if isinstance(inner, dict) and inner.keys() == {TAG, VALUE} and isinstance(inner[VALUE], list):
            inner = inner[VALUE]  # a tuple, say
        if isinstance(inner, dict) and TAG not in inner and step in inner:
            found = inner[step]
        elif isinstance(inner, list) and step.isascii() and step.isdigit() and int(step[:9]) < len(inner):
            found = inner[int(step[:9])]
        else:
            raise NoSuchPart(f"{done} has no {shorten(step, 64)!r}; it {_described(inner)}")
        done = f"{done}.{step}"
    return found


def _described(value: object) -> str:
    if isinstance(value, dict) and TAG not in value:
        return f"has the keys {shorten(', '.join(map(str, list(value)[:20])), 200)}" if value else "is empty"
    if isinstance(value, list):
        return f"has {len(value)} elements"
    return "has no parts"


def submission_of(
    node: Node, plan: Plan, inputs: Mapping[str, object], *, workflow_id: str
) -> dict[str, object]:
    """Return the submission of a node, as plain JSON."""
    payload: dict[str, object] = {"code": node.code, "inputs": dict(inputs)}
    if node.timeout_s is not None:
        payload["timeout_s"] = node.timeout_s
    return {
        "kind": KIND,
        "policy": policy_of(node, plan),
        "payload": payload,
        "labels": {"workflow": workflow_id, "node": node.id},
    }


def policy_of(node: Node, plan: Plan) -> str:
    """Return the policy of a node: its own, or the workflow's."""
    return node.policy or plan.policy


def with_repair(
    submission: dict[str, object], wish: RepairWish, node: Node, plan: Plan, inputs: Mapping[str, object]
) -> dict[str, object]:
    """Return a submission that is repaired if it fails; its words tell the provider of the other nodes."""
    wanted = {"provider": wish.provider, "max_attempts": wish.max_attempts}
    words = shorten("\n".join(_context(node, plan, inputs)), _CONTEXT_CHARS)
    return {**submission, "intent": words, "repair": wanted}


def _context(node: Node, plan: Plan, inputs: Mapping[str, object]) -> Iterator[str]:
    yield f"This code is the node '{node.id}' of a workflow{f' named {plan.name}' if plan.name else ''}."
    nodes = {one.id: one for one in plan.nodes}
    for name, source in node.sources.items():
        declared = nodes[source.node].declared.get(RESULT, "unknown")
        sample = shorten(json.dumps(inputs[name], ensure_ascii=False), _SAMPLE_CHARS)
        yield f"Its input '{name}' is {source.text} (that result is declared as {declared}), e.g. {sample}"
    for one in plan.nodes:
        for name, source in one.sources.items():
            if source.node == node.id:
                declared = one.declared.get(name, "unknown")
                yield f"{source.text} is the input '{name}' of node '{one.id}', declared as {declared}."
    for name, source in plan.outputs.items():
        if source.node == node.id:
            yield f"{source.text} is the output '{name}' of the workflow."
    yield "Keep the names of the inputs and the type of the result, because the other nodes rely on them."
