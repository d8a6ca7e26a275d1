"""Defines the values of a workflow: nodes with their inputs, outputs, and the state of each node."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from assayd.model.finding import Finding
from assayd.model.report import Verdict
from assayd.model.submission import Peer, RepairOptions

RESULT = "result"
MAX_NODES = 256

Inputs = Mapping[str, Mapping[str, object]]
"""The values of inputs, by node and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReference:
    """A reference to a node's result or to a part of it.

    `path` consists of object keys and list indexes.
    """

    node: str
    path: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the reference as text in documents, e.g. ``node.result.key``."""
        return ".".join((self.node, RESULT, *self.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowNode:
    """One code node.

    Attributes:
        line: the node's line in the document; None if the line is unknown.
        code: the node's Python code; empty until its library entry is looked up.
        code_line: the line in the document at which `code` begins; None if the code isn't a block there.
        library: the library entry of the code, as ``name@version`` once it is looked up.
        values: inputs with a value.
        sources: inputs that are the results of other nodes.
        declared: the types as written in the code, by input name, and for ``result``.
    """

    id: str
    line: int | None = None
    code: str = ""
    code_line: int | None = None
    library: str | None = None
    values: Mapping[str, object] = field(default_factory=dict)
    sources: Mapping[str, ResultReference] = field(default_factory=dict)
    timeout_s: float | None = None
    policy: str | None = None
    declared: Mapping[str, str] = field(default_factory=dict)

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the nodes whose results this node uses, each once, ordered by this node's inputs."""
        return tuple(dict.fromkeys(source.node for source in self.sources.values()))

    def with_values(self, values: Mapping[str, object]) -> WorkflowNode:
        """Return the node with these values, which replace the sources of inputs of the same names."""
        sources = {name: source for name, source in self.sources.items() if name not in values}
        return replace(self, values={**self.values, **values}, sources=sources)

    def without_values(self, names: Container[str]) -> WorkflowNode:
        """Return a copy of the node without the values of the named inputs."""
        return replace(self, values={name: one for name, one in self.values.items() if name not in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowPlan:
    """A complete workflow. `lines` contains the lines of the outputs in the document."""

    nodes: tuple[WorkflowNode, ...]
    outputs: Mapping[str, ResultReference]
    name: str | None = None
    policy: str = "code"
    timeout_s: float = 600.0
    lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def outline(self) -> WorkflowOutline:
        """Return the plan's outline, without code and values."""
        nodes = (
            NodeOutline(id=one.id, line=one.line, library=one.library, needs=one.needs) for one in self.nodes
        )
        return WorkflowOutline(name=self.name, nodes=tuple(nodes), outputs=self.outputs)

    def with_inputs(self, inputs: Inputs) -> WorkflowPlan:
        """Return the plan with these values in place of the values in the document."""
        return replace(self, nodes=tuple(one.with_values(inputs.get(one.id, {})) for one in self.nodes))

    def without_inputs(self, inputs: Inputs) -> WorkflowPlan:
        """Return the plan without these values, so that they aren't stored twice."""
        return replace(self, nodes=tuple(one.without_values(inputs.get(one.id, {})) for one in self.nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutline:
    """A node's id, line, library entry and dependencies, for lists and graphs."""

    id: str
    line: int | None
    library: str | None
    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowOutline:
    """A plan in a compact form, for lists and graphs, without code and values, which can be large."""

    name: str | None = None
    nodes: tuple[NodeOutline, ...] = ()
    outputs: Mapping[str, ResultReference] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReading:
    """The result of reading or checking a document. The plan is None if the document isn't a workflow."""

    plan: WorkflowPlan | None
    findings: tuple[Finding, ...] = ()

    @property
    def is_runnable(self) -> bool:
        """Return whether the plan exists and has no errors."""
        return self.plan is not None and not any(finding.is_error for finding in self.findings)


class NodeState(StrEnum):
    """The state of a node. All states except the first three are final."""

    WAITING = "waiting"
    """A dependency of the node has no result yet."""
    RUNNING = "running"
    """The node's attempt has no verdict yet."""
    REPAIRING = "repairing"
    """The node's attempt failed, and its repair is running."""
    VALIDATED = "validated"
    """The node's result exists."""
    FAILED = "failed"
    """The node's code failed, or a required part of a result doesn't exist."""
    ERROR = "error"
    """An internal error occurred or the submission was rejected; the code isn't the cause."""
    CANCELLED = "cancelled"
    """The node was running when the workflow was cancelled or reached its time limit."""
    SKIPPED = "skipped"
    """The node never ran: a dependency has no result, or the workflow ended first."""

    @property
    def is_final(self) -> bool:
        """Return whether the state is final."""
        return self not in {NodeState.WAITING, NodeState.RUNNING, NodeState.REPAIRING}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """The progress of a workflow's node.

    `attempt_id` is chosen before the attempt is submitted, so that repeating the submission has no effect.
    `reused` is True if the attempt belongs to the workflow that this one resumes. `repair_id` is the repair
    that produced the attempt as a fix.
    """

    node: str
    attempt_id: str
    state: NodeState = NodeState.WAITING
    reused: bool = False
    input_digest: str | None = None
    repair_id: str | None = None
    detail: str | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A stored workflow, without its document, inputs and plan, which can be large."""

    id: str
    peer: Peer
    created_at: datetime
    ends_at: datetime
    outline: WorkflowOutline
    nodes: Mapping[str, NodeRun]
    findings: tuple[Finding, ...] = ()
    repair: RepairOptions | None = None
    resumes: str | None = None
    verdict: Verdict | None = None
    detail: str | None = None
    cancelled_at: datetime | None = None
    finished_at: datetime | None = None
