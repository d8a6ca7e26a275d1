"""Reads a workflow's text, in YAML or JSON, strictly and within limits, in an analysis worker.

This module decides which documents are workflows and which inputs are references, whereas `checking`
decides whether they are consistent. Every fault is a finding with its line in the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from assayd.documents import parse_json
from assayd.documents.base import format_error_path, message_of
from assayd.errors import RequestError
from assayd.model.finding import Finding, Rule
from assayd.model.text_limits import shorten_text
from assayd_workflows.model import MAX_NODES, PlanReading, ResultReference, WorkflowNode, WorkflowPlan

READING: TypeAdapter[PlanReading] = TypeAdapter(PlanReading)
TIMEOUT_S = 600.0
MAX_TIMEOUT_S = 3600.0
_MAX_YAML_DEPTH = 50
_MAX_FAULTS = 20
_MAX_NUMBER_CHARS = 300
"""Maximum length of a number; in hexadecimal, this is below a submission's limit of decimal digits."""
_LITERAL_KEY = "literal"
_REFERENCE_PATTERN = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,63})\.result((?:\.[^.\s]{1,200}){0,20})", re.ASCII)
_YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

RULES = (
    Rule(
        id="workflow.syntax",
        title="The document isn't valid YAML or JSON",
        help="Bad: nodes: [. Good: nodes: [{id: a, code: …}].",
    ),
    Rule(
        id="workflow.field",
        title="A field of the document is wrong",
        help="Bad: nods: […]. Good: nodes: […].",
    ),
)

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
LibraryName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}(@[1-9][0-9]{0,8})?$")
]
PolicyName = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class _NodeEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: Name
    code: str | None = None
    library: LibraryName | None = None
    inputs: Annotated[dict[str, Any], Field(max_length=100)] = {}
    timeout_s: Annotated[float, Field(gt=0)] | None = None
    policy: PolicyName | None = None


class _DocumentEntries(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    policy: PolicyName = "code"
    timeout_s: Annotated[float, Field(gt=0, le=MAX_TIMEOUT_S)] = TIMEOUT_S
    nodes: Annotated[list[_NodeEntry], Field(min_length=1, max_length=MAX_NODES)]
    outputs: Annotated[dict[Name, str], Field(min_length=1, max_length=100)]


def read_document(body: bytes) -> bytes:
    """Read the text of a document and return a `PlanReading` as JSON."""
    return READING.dump_json(parse_document(body.decode()))


def parse_document(text: str) -> PlanReading:
    """Return the plan of a document, or the findings that explain why there is none."""
    try:
        value, places = _parse_values(text)
        return _build_plan(value, places)
    except _InvalidDocument as faults:
        return PlanReading(plan=None, findings=tuple(faults.findings()))


@dataclass(frozen=True, slots=True)
class _Fault:
    message: str
    line: int | None
    rule: str = "workflow.field"
    suggestion: str | None = None


class _InvalidDocument(Exception):
    """The error with the faults of a document that isn't a valid workflow."""

    def __init__(self, *faults: _Fault) -> None:
        super().__init__()
        self.faults = faults

    def findings(self) -> Iterator[Finding]:
        for fault in self.faults[:_MAX_FAULTS]:
            yield Finding(
                rule=fault.rule,
                category="workflow",
                message=fault.message,
                line=fault.line,
                suggestion=fault.suggestion,
            )


@dataclass(slots=True)
class _DocumentPlaces:
    """The lines of a document's values, keyed by path, and the first lines of the text blocks."""

    lines: dict[tuple[object, ...], int] = field(default_factory=dict)
    blocks: dict[tuple[object, ...], int] = field(default_factory=dict)

    def line(self, path: tuple[object, ...]) -> int | None:
        """Return the line of a value or of the smallest value around it, or None if no line is known."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


def _parse_values(text: str) -> tuple[object, _DocumentPlaces]:
    """Return the value of a document with its lines, which can be missing for JSON.

    Raises: _InvalidDocument, if the text is neither YAML nor JSON, or exceeds a limit.
    """
    places = _DocumentPlaces()
    if text.lstrip().startswith("{"):
        try:
            value: object = parse_json(text.encode())
        except RequestError as problem:
            message = f"The document isn't valid JSON: {problem.message}"
            raise _InvalidDocument(_Fault(message, None, "workflow.syntax")) from problem
        try:  # only for the line numbers, because JSON is nearly always YAML
            _YamlConverter(places).value(_compose_yaml(text), (), 0)
        except _InvalidDocument:
            places = _DocumentPlaces()
        return value, places
    return _YamlConverter(places).value(_compose_yaml(text), (), 0), places


def _compose_yaml(text: str) -> yaml.Node:
    loader = _YAML_LOADER(text)
    try:
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        line = None if mark is None else mark.line + 1
        message = f"The document isn't valid YAML: {problem.problem or problem.context}."
        raise _InvalidDocument(_Fault(message, line, "workflow.syntax")) from problem
    except (yaml.YAMLError, ValueError) as problem:
        message = f"The document isn't valid YAML: {shorten_text(str(problem), 200)}"
        raise _InvalidDocument(_Fault(message, None, "workflow.syntax")) from problem
    except RecursionError as problem:
        raise _depth_error(None) from problem
    finally:
        loader.dispose()
    if node is None:
        raise _InvalidDocument(_Fault("The document is empty.", None, "workflow.syntax"))
    found: yaml.Node = node
    return found


def _depth_error(line: int | None) -> _InvalidDocument:
    return _InvalidDocument(_Fault(f"The document is nested more than {_MAX_YAML_DEPTH} levels deep.", line))


class _YamlConverter:
    """A converter of YAML nodes to JSON values. Aliases are rejected."""

    def __init__(self, places: _DocumentPlaces) -> None:
        self._places = places
        self._seen: set[int] = set()

    def value(self, node: yaml.Node, path: tuple[object, ...], depth: int) -> object:
        """Convert a YAML node at a path to a JSON value.

        Raises: _InvalidDocument, for an alias, an unsupported tag or value, or too many levels.
        """
        line = node.start_mark.line + 1
        self._places.lines.setdefault(path, line)
        if id(node) in self._seen:
            raise _InvalidDocument(
                _Fault("YAML aliases aren't supported.", line, suggestion="Repeat the value.")
            )
        self._seen.add(id(node))
        if depth > _MAX_YAML_DEPTH:
            raise _depth_error(line)
        _reject_tag(node, line)
        if isinstance(node, yaml.MappingNode):
            return self._convert_mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(one, (*path, place), depth + 1) for place, one in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.style == "|":
            self._places.blocks[path] = line + 1
        return _convert_scalar(node, line)

    def _convert_mapping(
        self, node: yaml.MappingNode, path: tuple[object, ...], depth: int
    ) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise _InvalidDocument(_Fault("A key must be text.", line))
            _reject_tag(key, line)
            if key.value in found:
                raise _InvalidDocument(
                    _Fault(f"The key {shorten_text(key.value, 64)!r} appears twice.", line)
                )
            self._places.lines[(*path, key.value)] = line
            found[key.value] = self.value(value, (*path, key.value), depth + 1)
        return found


_RESOLVER: Any = yaml.resolver.Resolver()


def _reject_tag(node: yaml.Node, line: int) -> None:
    """Raise _InvalidDocument if a node's tag differs from the tag that the node's syntax implies."""
    plain = isinstance(node, yaml.ScalarNode) and not node.style
    if node.tag != _RESOLVER.resolve(type(node), node.value, (plain, not plain)):
        raise _unsupported_tag_error(node, line)


def _unsupported_tag_error(node: yaml.Node, line: int) -> _InvalidDocument:
    message = f"The YAML tag {shorten_text(node.tag, 64)!r} isn't supported."
    return _InvalidDocument(_Fault(message, line, suggestion="Write the value as JSON has it."))


_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_CONVERTER_BY_TAG: Mapping[str, Any] = {
    "str": lambda node: node.value,
    "timestamp": lambda node: node.value,
    "null": _CONSTRUCTOR.construct_yaml_null,
    "bool": _CONSTRUCTOR.construct_yaml_bool,
    "int": _CONSTRUCTOR.construct_yaml_int,
    "float": _CONSTRUCTOR.construct_yaml_float,
}


def _convert_scalar(node: yaml.Node, line: int) -> object:
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if kind not in _CONVERTER_BY_TAG:
        raise _unsupported_tag_error(node, line)
    if kind in {"int", "float"} and len(node.value) > _MAX_NUMBER_CHARS:
        raise _InvalidDocument(_Fault(f"A number has more than {_MAX_NUMBER_CHARS} characters.", line))
    try:
        value = _CONVERTER_BY_TAG[kind](node)
    except (ValueError, LookupError, OverflowError) as problem:
        raise _InvalidDocument(
            _Fault(f"{shorten_text(str(node.value), 64)!r} isn't a valid {kind}.", line)
        ) from problem
    if isinstance(value, float) and not isfinite(value):
        raise _InvalidDocument(_Fault("JSON has no infinite numbers and no NaN.", line))
    return value


def _build_plan(value: object, places: _DocumentPlaces) -> PlanReading:
    """Build the plan that a value represents. Raises: _InvalidDocument, if the value isn't a workflow."""
    entries = _validate_entries(value, places)
    if faults := [*_find_node_faults(entries, places), *_find_output_faults(entries, places)]:
        raise _InvalidDocument(*faults)
    return PlanReading(
        plan=WorkflowPlan(
            name=entries.name,
            policy=entries.policy,
            timeout_s=entries.timeout_s,
            nodes=tuple(_build_node(entry, number, places) for number, entry in enumerate(entries.nodes)),
            outputs={
                name: found for name, text in entries.outputs.items() if (found := _parse_reference(text))
            },
            lines={name: line for name in entries.outputs if (line := places.line(("outputs", name)))},
        )
    )


def _validate_entries(value: object, places: _DocumentPlaces) -> _DocumentEntries:
    if not isinstance(value, dict):
        raise _InvalidDocument(_Fault("The document must be an object with nodes and outputs.", 1))
    try:
        return _DocumentEntries.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise _InvalidDocument(*(_to_fault(one, places) for one in found)) from error


def _to_fault(fault: Mapping[str, Any], places: _DocumentPlaces) -> _Fault:
    path = tuple(fault["loc"])
    line = places.line(path)
    if fault["type"] == "extra_forbidden":
        known = ", ".join((_NodeEntry if path[0] == "nodes" else _DocumentEntries).model_fields)
        message = f"Unknown field {shorten_text(str(path[-1]), 64)!r}."
        return _Fault(message, line, suggestion=f"Use one of {known}.")
    return _Fault(f"{shorten_text(format_error_path(path), 120)}: {message_of(fault)}.", line)


def _find_node_faults(entries: _DocumentEntries, places: _DocumentPlaces) -> Iterator[_Fault]:
    seen: set[str] = set()
    for number, entry in enumerate(entries.nodes):
        line = places.line(("nodes", number, "id"))
        if entry.id in seen:
            message = f"Two nodes have the id '{entry.id}'."
            yield _Fault(message, line, suggestion="Rename one of them.")
        seen.add(entry.id)
        if (entry.code is None) == (entry.library is None):
            message = f"The node '{entry.id}' must have either code or library."
            yield _Fault(message, line, suggestion="Write its Python, or name an approved entry.")


def _find_output_faults(entries: _DocumentEntries, places: _DocumentPlaces) -> Iterator[_Fault]:
    for name, text in entries.outputs.items():
        if _parse_reference(text) is None:
            message = f"The output '{name}' isn't a reference: {shorten_text(text, 64)!r}."
            suggestion = "Write NODE.result, or NODE.result.PATH."
            yield _Fault(message, places.line(("outputs", name)), suggestion=suggestion)


def _build_node(entry: _NodeEntry, number: int, places: _DocumentPlaces) -> WorkflowNode:
    values: dict[str, object] = {}
    sources: dict[str, ResultReference] = {}
    for name, value in entry.inputs.items():
        source = _parse_reference(value) if isinstance(value, str) else None
        if source is not None:
            sources[name] = source
        else:
            values[name] = (
                value[_LITERAL_KEY] if isinstance(value, dict) and value.keys() == {_LITERAL_KEY} else value
            )
    return WorkflowNode(
        id=entry.id,
        line=places.line(("nodes", number, "id")),
        code=entry.code or "",
        code_line=places.blocks.get(("nodes", number, "code")),
        library=entry.library,
        values=values,
        sources=sources,
        timeout_s=entry.timeout_s,
        policy=entry.policy,
    )


def _parse_reference(text: str) -> ResultReference | None:
    found = _REFERENCE_PATTERN.fullmatch(text)
    if found is None:
        return None
    return ResultReference(node=found[1], path=tuple(found[2].split(".")[1:]))
