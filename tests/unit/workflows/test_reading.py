"""Which texts are workflows, and the errors of those that aren't."""

from __future__ import annotations

import json

import pytest

from assayd_workflows.model import ResultReference
from assayd_workflows.reading import parse_document

NODE = "nodes: [{id: a, code: 'result: int = 1'}]\n"
OUTPUTS = "outputs: {x: a.result}\n"


def said(text: str) -> list[tuple[int | None, str]]:
    reading = parse_document(text)
    assert reading.plan is None
    return [(finding.line, finding.message) for finding in reading.findings]


def test_references_and_values_are_told_apart() -> None:
    text = """
nodes:
  - id: a
    code: |
      result: int = 1
    inputs:
      part: b.result.rows.0
      whole: b.result
      text: b.results
      quoted: {literal: b.result}
      pair: {literal: 1, other: 2}
outputs: {x: a.result}
"""
    [node] = parse_document(text).plan.nodes

    assert node.sources == {
        "part": ResultReference(node="b", path=("rows", "0")),
        "whole": ResultReference(node="b"),
    }
    assert node.values == {"text": "b.results", "quoted": "b.result", "pair": {"literal": 1, "other": 2}}
    assert (node.line, node.code_line) == (3, 5)


def test_quoted_and_plain_scalars_need_no_tag() -> None:
    text = """
nodes:
  - {id: a, code: 'result: int = 1', inputs: {a: 1, b: "1", c: '', d: ~, e: , f: yes, g: 1.5, h: [x], i: 0xf}}
outputs: {x: a.result}
"""
    [node] = parse_document(text).plan.nodes

    values = {"a": 1, "b": "1", "c": "", "d": None, "e": None, "f": True, "g": 1.5, "h": ["x"], "i": 15}
    assert node.values == values


def test_json_and_yaml_give_the_same_plan() -> None:
    value = {
        "nodes": [{"id": "a", "code": "result: int = 1", "inputs": {"n": 2}}],
        "outputs": {"x": "a.result"},
    }

    as_json, as_yaml = (
        parse_document(text)
        for text in (
            json.dumps(value),
            "nodes: [{id: a, code: 'result: int = 1', inputs: {n: 2}}]\n" + OUTPUTS,
        )
    )

    assert as_json.findings == as_yaml.findings == ()
    assert as_json.plan.nodes[0].values == as_yaml.plan.nodes[0].values


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "The document is empty."),
        ("nodes: [", 2, "The document isn't valid YAML"),
        ("a: 1\na: 2", 2, "The key 'a' appears twice."),
        ('{"nodes": 1, "nodes": 2}', None, "The document isn't valid JSON: the key 'nodes' is repeated"),
        ("&a [*a]", 1, "YAML aliases aren't supported."),
        ("a: !!python/object:os.system x", 1, "The YAML tag"),
        ("a: !!bool foo", 1, "The YAML tag 'tag:yaml.org,2002:bool' isn't supported."),
        ('a: !!int ""', 1, "The YAML tag"),
        ("a: !!float 5", 1, "The YAML tag"),
        ("a: !!set {b}", 1, "The YAML tag 'tag:yaml.org,2002:set' isn't supported."),
        ("!x [1]", 1, "The YAML tag '!x' isn't supported."),
        (f"a: {'1:' * 200}1.5", 1, "A number has more than 300 characters."),
        ("!!int a: 1", 1, "The YAML tag 'tag:yaml.org,2002:int' isn't supported."),
        (f"a: 0x{'f' * 5000}", 1, "A number has more than 300 characters."),
        (f"a: {'1:' * 5000}1", 1, "A number has more than 300 characters."),
        ("a: 0b_", 1, "'0b_' isn't a valid int."),
        ("a: .nan", 1, "JSON has no infinite numbers and no NaN."),
        ("[a]: 1", 1, "A key must be text."),
        ("--- a\n--- b", 2, "The document isn't valid YAML"),
        ("- 1", 1, "The document must be an object with nodes and outputs."),
        (NODE, 1, "outputs: Field required."),
        (NODE + OUTPUTS + "nods: 1", 3, "Unknown field 'nods'."),
        ("nodes: [{id: a, cod: 1, code: ''}]\n" + OUTPUTS, 1, "Unknown field 'cod'."),
        ("nodes: [{id: a-b, code: ''}]\n" + OUTPUTS, 1, "nodes.0.id: String should match"),
        ("nodes: [{id: a}]\n" + OUTPUTS, 1, "The node 'a' must have either code or library."),
        ("nodes: [{id: a, code: '', library: b}]\n" + OUTPUTS, 1, "The node 'a' must have either"),
        ("nodes: [{id: a, code: ''}, {id: a, code: ''}]\n" + OUTPUTS, 1, "Two nodes have the id 'a'."),
        (NODE + "outputs: {x: a}", 2, "The output 'x' isn't a reference: 'a'."),
        (NODE + OUTPUTS + "timeout_s: 0", 3, "timeout_s: Input should be greater than 0."),
        (NODE + OUTPUTS + "timeout_s: 4000", 3, "timeout_s: Input should be less than or equal to 3600."),
    ],
)
def test_fault_is_named_with_its_line(text: str, line: int | None, message: str) -> None:
    faults = said(text)

    assert any(at == line and fault.startswith(message) for at, fault in faults), faults


def test_deep_nesting_and_aliases_that_multiply_end_quickly() -> None:
    bomb = "a: &a [1]\n" + "".join(
        f"{c}: &{c} [*{p}, *{p}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
    )

    assert said("a: " + "[" * 200 + "]" * 200)[0][1].startswith("The document is nested")
    assert said(bomb)[0][1] == "YAML aliases aren't supported."


def test_more_nodes_than_allowed_are_refused() -> None:
    nodes = ", ".join(f"{{id: n{number}, code: ''}}" for number in range(257))

    assert said(f"nodes: [{nodes}]\noutputs: {{x: n1.result}}")[0][1].startswith(
        "nodes: List should have at most 256"
    )
