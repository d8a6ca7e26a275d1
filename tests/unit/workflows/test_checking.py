"""Errors in a workflow before anything runs."""

from __future__ import annotations

from assayd_workflows.checking import check_plan
from assayd_workflows.reading import parse_document

LOAD = """nodes:
  - id: load
    code: |
      n: int
      result: list[int] = list(range(n))
    inputs: {n: 3}
"""
OUTPUT = "outputs: {x: use.result}\n"


def use(declaration: str, source: str = "load.result", result: str = "int") -> str:
    """Return a node that uses the first node's result."""
    return f"""  - id: use
    code: |
      {declaration}
      result: {result} = 1
    inputs: {{rows: {source}}}
"""


def found(text: str) -> list[tuple[str, int | None, str]]:
    reading = parse_document(text)
    assert reading.plan is not None, reading.findings
    return [
        (one.rule.removeprefix("workflow."), one.line, one.message)
        for one in check_plan(reading.plan).findings
    ]


def test_fitting_types_have_no_findings_and_are_remembered() -> None:
    plan = parse_document(LOAD + use("rows: list[int]") + OUTPUT).plan

    reading = check_plan(plan)

    assert reading.findings == ()
    assert reading.plan.nodes[1].declared == {"rows": "list[int]", "result": "int"}


def test_list_into_text_is_an_error_with_both_lines() -> None:
    [(rule, line, message)] = found(LOAD + use("rows: str") + OUTPUT)

    assert (rule, line) == ("type", 9)
    assert message == (
        "The input 'rows' of node 'use' is str (line 9), but load.result is list[int] (line 5)."
    )


def test_lines_of_code_that_is_no_block_are_those_of_the_code() -> None:
    text = "nodes: [{id: load, code: 'result: int = 1'}, {id: use, code: \"rows: str\\nresult: int = 1\", "
    [(_, line, message)] = found(text + "inputs: {rows: load.result}}]\n" + OUTPUT)

    assert line == 1
    assert "(line 1 of the code of 'use')" in message
    assert "(line 1 of the code of 'load')" in message


def test_optional_result_is_a_warning_and_elements_are_compared() -> None:
    optional = LOAD.replace("list[int] =", "list[int] | None =")

    assert [rule for rule, _, _ in found(optional + use("rows: list") + OUTPUT)] == ["partial_type"]
    assert [rule for rule, _, _ in found(LOAD + use("rows: list[str]") + OUTPUT)] == ["element_type"]
    assert found(LOAD + use("rows: object") + OUTPUT) == []


def test_paths_are_judged_as_far_as_the_declaration_says() -> None:
    mapping = LOAD.replace("list[int] = list(range(n))", "dict[str, int] = {}")

    assert found(mapping + use("rows: int", "load.result.total") + OUTPUT) == []
    [(rule, _, message)] = found(mapping + use("rows: str", "load.result.total") + OUTPUT)
    assert (rule, "load.result.total is part of dict[str, int]" in message) == ("type", True)
    [(rule, _, message)] = found(LOAD + use("rows: int", "load.result.total") + OUTPUT)
    assert (rule, "needs a number as index" in message) == ("path", True)
    [(rule, _, message)] = found(LOAD + use("rows: list") + "outputs: {x: use.result.y}\n")
    assert (rule, "has no part" in message) == ("path", True)


def test_value_of_another_type_is_an_error() -> None:
    [(rule, line, message)] = found(LOAD.replace("n: 3", "n: three") + use("rows: list") + OUTPUT)

    assert (rule, line, message) == (
        "type",
        4,
        "The input 'n' of node 'load' is int (line 4), but its value is str.",
    )


def test_unknown_nodes_are_named_with_what_was_meant() -> None:
    reading = check_plan(
        parse_document(
            LOAD + use("rows: list", "lod.result") + "outputs: {x: use.result, y: usee.result}\n"
        ).plan
    )

    errors = [(one.message, one.suggestion) for one in reading.findings if one.rule == "workflow.reference"]
    assert errors == [
        ("The input 'rows' of node 'use' refers to an unknown node: lod.result", "Did you mean 'load'?"),
        ("The output 'y' refers to an unknown node: usee.result", "Did you mean 'use'?"),
    ]


def test_cycle_is_named_once() -> None:
    text = "".join(
        f'  - id: {name}\n    code: "x: int\\nresult: int = x"\n    inputs: {{x: {needs}.result}}\n'
        for name, needs in [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]
    )
    cycles = [
        message for rule, _, message in found(f"nodes:\n{text}outputs: {{x: d.result}}\n") if rule == "cycle"
    ]

    assert cycles == ["These nodes need each other: a -> c -> b -> a"]


def test_node_of_itself_is_a_cycle() -> None:
    assert "cycle" in [rule for rule, _, _ in found(LOAD + use("rows: int", "use.result") + OUTPUT)]


def test_unused_node_is_a_warning() -> None:
    [(rule, line, _)] = found(LOAD + use("rows: list") + "outputs: {x: load.result}\n")

    assert (rule, line) == ("unused", 7)


def test_inputs_without_a_source_and_without_a_declaration_are_errors() -> None:
    assert found(LOAD + use("rows: list\n      more: int") + OUTPUT)[0][:2] == ("no_source", 10)
    assert found(LOAD + use("pass") + OUTPUT)[0][:2] == ("undeclared_input", 7)


def test_code_without_result_and_code_that_is_no_python_are_errors() -> None:
    assert found(LOAD + use("rows: list").replace("result: int", "resul: int") + OUTPUT)[0][:2] == ("code", 7)
    rule, line, message = found(LOAD + use("rows: list[") + OUTPUT)[0]
    assert (rule, line) == ("code", 9)
    assert message.startswith("The code of node 'use' can't be read (line 9): ")


def test_many_warnings_displace_no_error() -> None:
    unused = ", ".join(f"{{id: n{number}, code: 'result: int = 1'}}" for number in range(250))
    text = f"nodes: [{unused}, {{id: last, code: 'x: int'}}]\noutputs: {{x: last.result}}\n"

    assert "code" in [rule for rule, _, _ in found(text)]
