"""Builds a node's submission, with inputs from earlier results, and the context of the node's repair.

The module is pure. Results have the form of a case's `result` in the API; tagged values stay tagged. Inputs
are JSON text, because many references can name parts of one result, and the sizes of texts can be added up
before anything is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assayd.documents import canonical
from assayd.guest.tagged import TAG, VALUE
from assayd.model.submission import RepairOptions
from assayd.model.text_limits import shorten_text
from assayd_workflows.model import RESULT, ResultReference, WorkflowNode, WorkflowPlan

KIND = "code"
_SAMPLE_CHARS = 600
_CONTEXT_CHARS = 12_000


class MissingResultPart(Exception):
    """The error for a reference to a part that a result doesn't have."""


class ResultPartsTooLarge(Exception):
    """The error for referenced parts of results that exceed the size limit in total."""


@dataclass(slots=True)
class SizeBudget:
    """The number of bytes available for referenced parts. `what` describes the parts in messages."""

    what: str
    most: int
    used: int = 0

    def spend(self, size: int) -> None:
        """Use some of the available bytes. Raises: ResultPartsTooLarge, if too few are left."""
        self.used += size
        if self.used > self.most:
            raise ResultPartsTooLarge(
                f"{self.what} have more than {self.most} bytes; refer to parts of the results"
            )


def extract_texts(
    result: object, sources: Mapping[str, ResultReference], room: SizeBudget
) -> dict[str, bytes]:
    """Return parts of one result as JSON text, with each part once.

    Raises: MissingResultPart, ResultPartsTooLarge.
    """
    written: dict[tuple[str, ...], bytes] = {}
    found: dict[str, bytes] = {}
    for name, source in sources.items():
        if source.path not in written:
            written[source.path] = canonical(resolve_reference(result, source))
        found[name] = written[source.path]
        room.spend(len(found[name]))
    return found


def join_json_members(members: Mapping[str, bytes]) -> bytes:
    """Return a JSON object whose members' values are JSON texts."""
    return b"{%b}" % b",".join(b"%b:%b" % (canonical(name), text) for name, text in members.items())


def resolve_reference(result: object, source: ResultReference) -> object:
    """Return the part of a result that a reference names. Raises: MissingResultPart, if it doesn't exist."""
    found, done = result, f"{source.node}.{RESULT}"
    for step in source.path:
        inner = found
        if isinstance(inner, dict) and inner.keys() == {TAG, VALUE} and isinstance(inner[VALUE], list):
            inner = inner[VALUE]  # a tuple, for example
        if isinstance(inner, dict) and TAG not in inner and step in inner:
            found = inner[step]
        elif isinstance(inner, list) and step.isascii() and step.isdigit() and int(step[:9]) < len(inner):
            found = inner[int(step[:9])]
        else:
            raise MissingResultPart(f"{done} has no {shorten_text(step, 64)!r}; it {_describe_value(inner)}")
        done = f"{done}.{step}"
    return found


def _describe_value(value: object) -> str:
    if isinstance(value, dict) and TAG not in value:
        return (
            f"has the keys {shorten_text(', '.join(map(str, list(value)[:20])), 200)}"
            if value
            else "is empty"
        )
    if isinstance(value, list):
        return f"has {len(value)} elements"
    return "has no parts"


def build_submission(
    node: WorkflowNode,
    plan: WorkflowPlan,
    inputs: Mapping[str, bytes],
    *,
    workflow_id: str,
    repair: RepairOptions | None = None,
) -> bytes:
    """Return a node's submission as JSON. With `repair`, its intent describes the other nodes."""
    payload: dict[str, object] = {"code": node.code}
    if node.timeout_s is not None:
        payload["timeout_s"] = node.timeout_s
    submission: dict[str, object] = {
        "kind": KIND,
        "policy": resolve_effective_policy(node, plan),
        "labels": {"workflow": workflow_id, "node": node.id},
    }
    if repair is not None:
        words = "\n".join(_build_context(node, plan, inputs))
        submission["intent"] = shorten_text(words, _CONTEXT_CHARS)
        submission["repair"] = {"provider": repair.provider, "max_attempts": repair.max_attempts}
    texts = {name: canonical(value) for name, value in payload.items()}
    whole = {name: canonical(value) for name, value in submission.items()}
    return join_json_members(
        {**whole, "payload": join_json_members({**texts, "inputs": join_json_members(inputs)})}
    )


def resolve_effective_policy(node: WorkflowNode, plan: WorkflowPlan) -> str:
    """Return the effective policy of a node, which is its own policy or the workflow's policy."""
    return node.policy or plan.policy


def _build_context(node: WorkflowNode, plan: WorkflowPlan, inputs: Mapping[str, bytes]) -> Iterator[str]:
    yield f"This code is the node '{node.id}' of a workflow{f' named {plan.name}' if plan.name else ''}."
    nodes = {one.id: one for one in plan.nodes}
    for name, source in node.sources.items():
        declared = nodes[source.node].declared.get(RESULT, "unknown")
        beginning = inputs[name][: 4 * _SAMPLE_CHARS].decode("utf-8", "ignore")
        sample = shorten_text(beginning, _SAMPLE_CHARS)
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
