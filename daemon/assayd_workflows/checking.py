"""Checks a workflow before it runs: the graph, the sources of inputs, and the types along the edges.

    total.rows <- lod.result             workflow.reference     no node has this id
    a <- b <- a                          workflow.cycle
    result: list[int] -> name: str       workflow.type          with both lines
    result: list[int] -> rows: list[str] workflow.element_type  (a warning: only outer types are checked)
    rows: list, and no input             workflow.no_source

The module is pure. It runs in an analysis worker, because it parses submitted Python. The types are the
same as for the kind `code`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from assayd.did_you_mean import find_close_names
from assayd.kinds.code import types as code_types
from assayd.kinds.code.inputs import find_missing_names
from assayd.kinds.code.types import ANYTHING, Declaration, find_declarations
from assayd.model.finding import Finding, Rule, Severity
from assayd.static.python import model_answer
from assayd.static.python import source as python_source
from assayd.static.python.scopes import is_variable
from assayd.static.python.signature import find_annotation_aliases, list_alternatives
from assayd_workflows.model import RESULT, PlanReading, ResultReference, WorkflowNode, WorkflowPlan
from assayd_workflows.reading import READING

PLAN: TypeAdapter[WorkflowPlan] = TypeAdapter(WorkflowPlan)
_COLLECTION_TYPES = frozenset({"dict", "list", "tuple", "set", "frozenset"})
_INDEXED_TYPES = frozenset({"list", "tuple"})
_MOST = 200

RULES = (
    Rule(
        id="workflow.reference",
        title="A reference to an unknown node",
        help="Bad: rows: lod.result, without a node lod. Good: rows: load.result.",
    ),
    Rule(
        id="workflow.cycle",
        title="Nodes need each other",
        help="Bad: a uses b.result, and b uses a.result. Good: a uses b.result.",
    ),
    Rule(
        id="workflow.unused",
        title="A node's result isn't used",
        severity=Severity.WARNING,
        help="Bad: a node that no output needs. Good: outputs: {a: a.result}.",
    ),
    Rule(
        id="workflow.no_source",
        title="An input has no source",
        help="Bad: code with rows: list, and inputs: {}. Good: inputs: {rows: load.result}.",
    ),
    Rule(
        id="workflow.undeclared_input",
        title="The code doesn't declare an input",
        help="Bad: inputs: {rows: []}, and code without rows: list. Good: both.",
    ),
    Rule(
        id="workflow.code",
        title="The code of a node isn't a code node",
        help="Bad: result = 1. Good: result: int = 1.",
    ),
    Rule(
        id="workflow.type",
        title="A result doesn't fit the input that it goes to",
        help="Bad: result: list[int] into name: str. Good: into rows: list.",
    ),
    Rule(
        id="workflow.partial_type",
        title="A result perhaps doesn't fit the input that it goes to",
        severity=Severity.WARNING,
        help="Bad: result: int | None into count: int. Good: into count: int | None.",
    ),
    Rule(
        id="workflow.element_type",
        title="Elements don't fit the input that they go to",
        severity=Severity.WARNING,
        help="Bad: result: list[int] into rows: list[str]. Good: into rows: list[int].",
    ),
    Rule(
        id="workflow.path",
        title="A path into a value without parts",
        help="Bad: total.result.sum, with result: int. Good: total.result.",
    ),
)


def check_workflow(body: bytes) -> bytes:
    """Check a plan, and return a `PlanReading` as JSON, whose plan contains the declared types."""
    return READING.dump_json(check_plan(PLAN.validate_json(body)))


def check_plan(plan: WorkflowPlan) -> PlanReading:
    """Return the plan with the types that its nodes declare, and at most `_MOST` findings."""
    nodes = {node.id: _parse_node_code(node) for node in plan.nodes}
    found = [
        *_check_references(plan),
        *_find_cycles(plan),
        *_find_unused_nodes(plan),
        *(finding for read in nodes.values() for finding in _check_sources(read)),
        *_check_types(plan, nodes),
    ]
    found.sort(key=lambda finding: not finding.is_error)  # an error is never cut off in favor of a warning
    kept = sorted(found[:_MOST], key=lambda finding: finding.line or 0)
    declared = tuple(replace(node, declared=nodes[node.id].shown) for node in plan.nodes)
    return PlanReading(plan=replace(plan, nodes=declared), findings=tuple(kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeclaredName:
    """The declaration of a name in a node: the outer types, the types of elements, and the location."""

    types: frozenset[str]
    elements: frozenset[str]
    annotation: str
    line: int
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeCode:
    """The parsed code of a node. `problem` is set if the code can't be parsed or doesn't declare a result."""

    node: WorkflowNode
    declared: Mapping[str, _DeclaredName]
    awaited: Sequence[str] = ()
    problem: Finding | None = None

    @property
    def shown(self) -> Mapping[str, str]:
        """Return the annotation of each declared name as written in the code."""
        return {name: one.annotation for name, one in self.declared.items()}


def _parse_node_code(node: WorkflowNode) -> _NodeCode:
    text = model_answer.extract_code(node.code).text
    if not node.code.startswith(text):  # extracted from an answer, so its lines differ
        node = replace(node, code_line=None)
    source = python_source.parse_source(text)
    if source.tree is None:
        first = source.findings[0]
        at = _format_position(node, first.line)
        fault = f"The code of node '{node.id}' can't be read ({at}): {first.message}"
        return _NodeCode(
            node=node, declared={}, problem=_build_workflow_finding(node, "workflow.code", fault, first.line)
        )
    tree = source.tree
    given = {*node.values, *node.sources}
    missing = find_missing_names(tree, dict.fromkeys(given))
    found = {one.name: one for one in reversed(find_declarations(tree, {*given, *missing, RESULT}))}
    aliases = find_annotation_aliases(tree)
    declared = {name: _read_declaration(node, one, aliases, text) for name, one in found.items()}
    problem = None
    if RESULT not in declared:
        fault = f"The code of node '{node.id}' doesn't declare its result."
        problem = _build_workflow_finding(node, "workflow.code", fault, None, "Add: result: TYPE = …")
    return _NodeCode(node=node, declared=declared, awaited=missing, problem=problem)


def _read_declaration(
    node: WorkflowNode, declaration: Declaration, aliases: Mapping[str, ast.expr], text: str
) -> _DeclaredName:
    line = declaration.node.lineno
    return _DeclaredName(
        types=declaration.types,
        elements=_find_element_types(declaration.node.annotation, aliases),
        annotation=declaration.shown(text),
        line=line,
        place=_format_position(node, line),
    )


def _find_element_types(annotation: ast.expr, aliases: Mapping[str, ast.expr]) -> frozenset[str]:
    """Return the types of the elements of a list, dict or similar type, or `ANYTHING` if they are unknown."""
    if not isinstance(annotation, ast.Subscript):
        return frozenset({ANYTHING})
    outer = code_types.resolve_types(list_alternatives(annotation.value, aliases))
    parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    if not outer <= _COLLECTION_TYPES or (outer == {"tuple"} and len(parts) > 1):
        return frozenset({ANYTHING})
    return code_types.resolve_types(list_alternatives(parts[-1], aliases))


def _check_references(plan: WorkflowPlan) -> Iterator[Finding]:
    known = [node.id for node in plan.nodes]
    for node in plan.nodes:
        for name, source in node.sources.items():
            if source.node not in known:
                message = f"The input '{name}' of node '{node.id}' refers to an unknown node: {source.text}"
                yield _build_workflow_finding(
                    node, "workflow.reference", message, None, _suggest_node(source, known)
                )
    for name, source in plan.outputs.items():
        if source.node not in known:
            yield Finding(
                rule="workflow.reference",
                category="workflow",
                message=f"The output '{name}' refers to an unknown node: {source.text}",
                line=plan.lines.get(name),
                suggestion=_suggest_node(source, known),
            )


def _suggest_node(source: ResultReference, known: Sequence[str]) -> str:
    close = find_close_names(source.node, known)
    return f"Did you mean '{close[0]}'?" if close else f"Use one of {', '.join(known[:10])}."


def _find_cycles(plan: WorkflowPlan) -> Iterator[Finding]:
    nodes = {node.id: node for node in plan.nodes}
    while left := _find_unorderable_nodes(nodes):
        path = [next(iter(left))]
        while path.count(path[-1]) < 2:
            path.append(next(need for need in nodes[path[-1]].needs if need in left))
        cycle = path[path.index(path[-1]) :]
        message = f"These nodes need each other: {' -> '.join(reversed(cycle))}"
        remedy = f"Remove one of the references, e.g. that of '{cycle[0]}' to {cycle[1]}.result."
        yield _build_workflow_finding(nodes[cycle[0]], "workflow.cycle", message, None, remedy)
        for each in set(cycle):
            del nodes[each]


def _find_unorderable_nodes(nodes: Mapping[str, WorkflowNode]) -> dict[str, None]:
    """Return the nodes that belong to a cycle or depend on a node in a cycle."""
    left = dict.fromkeys(nodes)
    while ready := [each for each in left if not any(need in left for need in nodes[each].needs)]:
        for each in ready:
            del left[each]
    return left


def _find_unused_nodes(plan: WorkflowPlan) -> Iterator[Finding]:
    nodes = {node.id: node for node in plan.nodes}
    pending = [source.node for source in plan.outputs.values()]
    used: set[str] = set()
    while pending:
        each = pending.pop()
        if each in nodes and each not in used:
            used.add(each)
            pending.extend(nodes[each].needs)
    for node in plan.nodes:
        if node.id not in used:
            message = f"No output needs the node '{node.id}'."
            remedy = "Remove the node, or use its result in an output or in another node."
            yield _to_warning(_build_workflow_finding(node, "workflow.unused", message, None, remedy))


def _check_sources(code: _NodeCode) -> Iterator[Finding]:
    """Yield the findings about a node's code, inputs without a source, and inputs that it doesn't declare."""
    node = code.node
    if code.problem is not None:
        yield code.problem
    if not code.declared and code.problem is not None:
        return
    for name in code.awaited:
        line = code.declared[name].line
        message = f"The input '{name}' of node '{node.id}' has no source."
        remedy = f"Add it to the node's inputs, or pass it: --set {node.id}.{name}=VALUE"
        yield _build_workflow_finding(node, "workflow.no_source", message, line, remedy)
    for name in (*node.values, *node.sources):
        if name not in code.declared or name == RESULT or not is_variable(name):
            message = f"The code of node '{node.id}' doesn't declare the input '{name}'."
            remedy = f"Add a line at the top of its code: {name}: object"
            yield _build_workflow_finding(node, "workflow.undeclared_input", message, None, remedy)


def _check_types(plan: WorkflowPlan, nodes: Mapping[str, _NodeCode]) -> Iterator[Finding]:
    for code in nodes.values():
        for name, value in code.node.values.items():
            wanted = code.declared.get(name)
            actual = code_types.infer_type(value)  # type: ignore[arg-type]  # it was read as JSON
            if wanted is not None and not code_types.matches_type(actual, wanted.types):
                message = (
                    f"The input '{name}' of node '{code.node.id}' is {wanted.annotation} ({wanted.place}), "
                    f"but its value is {actual}."
                )
                yield _build_workflow_finding(code.node, "workflow.type", message, wanted.line)
        for name, source in code.node.sources.items():
            wanted, giving = code.declared.get(name), nodes.get(source.node)
            result = giving.declared.get(RESULT) if giving is not None else None
            if wanted is not None and result is not None:
                yield from _check_edge(code, name, source, wanted, result)
    for name, source in plan.outputs.items():
        giving = nodes.get(source.node)
        result = giving.declared.get(RESULT) if giving is not None else None
        if giving is not None and result is not None and (wrong := _explain_invalid_path(source, result)):
            found = _build_workflow_finding(giving.node, "workflow.path", wrong, result.line)
            yield replace(found, line=plan.lines.get(name, found.line))


def _check_edge(
    code: _NodeCode, name: str, source: ResultReference, wanted: _DeclaredName, result: _DeclaredName
) -> Iterator[Finding]:
    """Yield a finding if a result can't have the referenced path, or if its type doesn't fit the input."""
    if (wrong := _explain_invalid_path(source, result)) is not None:
        yield _build_workflow_finding(code.node, "workflow.path", wrong, wanted.line)
        return
    given, inner = result.types, result.elements
    if source.path:
        given, inner = (inner if len(source.path) == 1 else frozenset({ANYTHING})), frozenset({ANYTHING})
    said = (
        f"The input '{name}' of node '{code.node.id}' is {wanted.annotation} ({wanted.place}), but "
        f"{source.text} {{}} {result.annotation} ({result.place})."
    )
    if source.path:
        said = said.replace(" {}", " is part of")
    unfit = _find_mismatched_types(given, wanted.types)
    if unfit and unfit == given:
        message = said.format("is")
        remedy = f"Declare {name}: {code_types.format_types(given)}, or change the result."
        yield _build_workflow_finding(code.node, "workflow.type", message, wanted.line, remedy)
    elif unfit:
        optional = code_types.format_types(wanted.types | unfit)
        found = _build_workflow_finding(
            code.node,
            "workflow.partial_type",
            said.format("may be something else:"),
            wanted.line,
            f"Handle {code_types.format_types(unfit)} in the code, and declare {name}: {optional}.",
        )
        yield _to_warning(found)
    elif (unfit := _find_mismatched_types(inner, wanted.elements)) and unfit == inner:
        message = said.format("is")
        remedy = "Only outer types are checked when it runs; make the elements agree."
        yield _to_warning(
            _build_workflow_finding(code.node, "workflow.element_type", message, wanted.line, remedy)
        )


def _find_mismatched_types(given: Collection[str], wanted: Collection[str]) -> frozenset[str]:
    """Return the types that don't match, or an empty set if one of the types is unknown."""
    if ANYTHING in given:
        return frozenset()
    return frozenset(each for each in given if not code_types.matches_type(each, wanted))


def _explain_invalid_path(source: ResultReference, result: _DeclaredName) -> str | None:
    """Return the reason why a result of the declared type can't contain a path, or None if it can."""
    if not source.path or ANYTHING in result.types:
        return None
    step = source.path[0]
    if not result.types & {"dict", *_INDEXED_TYPES}:
        return f"{source.text} has no part: the result is {result.annotation} ({result.place})."
    if "dict" not in result.types and not step.isdigit():
        return f"{source.text} needs a number as index: the result is {result.annotation} ({result.place})."
    return None


def _format_position(node: WorkflowNode, line: int | None) -> str:
    """Return a phrase for a line of a node's code.

    It contains the line in the document if that is known, otherwise the line in the code; without a line, it
    contains only the node's id.
    """
    if line is None:
        return f"node '{node.id}'"
    if node.code_line is not None:
        return f"line {node.code_line + line - 1}"
    return f"line {line} of the code of '{node.id}'"


def _build_workflow_finding(
    node: WorkflowNode, rule: str, message: str, line: int | None, suggestion: str | None = None
) -> Finding:
    """Build a finding for a line of a node's code, or for the node. `context` is the node's name."""
    in_document = node.line if line is None or node.code_line is None else node.code_line + line - 1
    return Finding(
        rule=rule,
        category="workflow",
        message=message,
        line=in_document,
        suggestion=suggestion,
        context=node.id,
    )


def _to_warning(finding: Finding) -> Finding:
    return replace(finding, severity=Severity.WARNING)
