"""Checks the input values of a code node against its declarations.

    {"my-data": []}                            inputs.name          not a name
    {"at": {"$py": "datetime", "value": 1}}    inputs.encoding      a tag with a value of another type
    data: list, and a dict is passed           inputs.type
    data: list = [1], and data is passed       inputs.overwritten   (a warning)
    count: int, and nothing is passed          inputs.not_given     (a warning)
    requires ["pandas"]                        inputs.requires      (a warning)

Source: docs/kinds/code.md.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from assayd.findings.python_failures import IMAGE_MODULES, describe_replacement, guess_module
from assayd.guest.tagged import TAGS, restore_tagged
from assayd.kinds.code import types as code_types
from assayd.kinds.code.types import RESULT, Declaration, find_declarations, finding_at
from assayd.model.finding import Finding, Rule, Severity
from assayd.model.submission import JsonValue
from assayd.model.text_limits import shorten_text
from assayd.static.python.scopes import find_bound_names, is_variable, list_annotated_names

_MAX_MISSING_NAMES = 100

RULES = (
    Rule(
        id="inputs.name",
        title="An input name that can't be a variable",
        help="Bad: my-data, class, result. Good: my_data.",
    ),
    Rule(
        id="inputs.encoding",
        title="A tagged value that can't be read",
        help='Bad: {"$py": "set", "value": "ab"}. Good: {"$py": "set", "value": ["a", "b"]}.',
    ),
    Rule(
        id="inputs.type",
        title="An input has another type than declared",
        help="Bad: data: list, and the input {}. Good: data: dict, or the input [].",
    ),
    Rule(
        id="inputs.overwritten",
        title="The code replaces an input at once",
        severity=Severity.WARNING,
        help="Bad: data: list = []. Good: data: list.",
    ),
    Rule(
        id="inputs.not_given",
        title="A declared name without a value",
        severity=Severity.WARNING,
        help="Bad: count: int, with no input and no assignment.",
    ),
    Rule(
        id="inputs.requires",
        title="A required module that the image doesn't have",
        severity=Severity.WARNING,
        help="Bad: requires ['pandas']. Good: modules of the standard library.",
    ),
)


def check_inputs(
    text: str, tree: ast.Module, inputs: Mapping[str, JsonValue], requires: Sequence[str]
) -> Iterator[Finding]:
    """Yield findings about the inputs' names, encodings and types, and about required modules."""
    missing = find_missing_names(tree, inputs)
    declared = {found.name: found for found in reversed(find_declarations(tree, {*inputs, *missing}))}
    for name, value in inputs.items():
        wrong = _check_name(name) or _check_encoding(name, value)
        if wrong is not None:
            yield wrong
        elif name in declared:
            yield from _check_type(declared[name], value, text)
    for name in missing:
        yield _build_missing_value_finding(declared[name], text)
    for module in requires:
        if guess_module(module) not in IMAGE_MODULES:
            yield _build_missing_module_finding(module)


def check_values(
    text: str, tree: ast.Module, given: Sequence[tuple[str, Mapping[str, object]]]
) -> Iterator[Finding]:
    """Yield findings about the encodings and types of the cases' values, each with the case's name."""
    wanted = {name for _, inputs in given for name in inputs}
    declared = {found.name: found for found in reversed(find_declarations(tree, wanted))}
    for case, inputs in given:
        for name, value in inputs.items():
            wrong = _check_name(name) or _check_encoding(name, value)  # type: ignore[arg-type]  # it came as JSON
            found = [wrong] if wrong is not None else []
            if not found and name in declared:
                found = list(_check_type(declared[name], value, text))  # type: ignore[arg-type]
            yield from (replace(finding, context=f"case {case}") for finding in found)


def find_missing_names(tree: ast.Module, inputs: Mapping[str, object]) -> tuple[str, ...]:
    """Return at most 100 declared names that are neither supplied as inputs nor bound by the source.

    Return none if a star import can bind any name.
    """
    bare = [node.target for _, node in list_annotated_names(tree) if node.value is None]
    bound = find_bound_names(tree, leaving_out=bare)
    if bound is None:
        return ()
    declared = {target.id for target in bare if isinstance(target, ast.Name)}
    return tuple(sorted(declared - bound - {*inputs, RESULT}))[:_MAX_MISSING_NAMES]


def _check_name(name: str) -> Finding | None:
    if name == RESULT:
        remedy = "Rename the input; `result` is the code node's output."
    elif not is_variable(name):
        remedy = "Use letters, digits and '_', no Python keyword, and no leading '__'."
    else:
        return None
    return _build_inputs_finding(
        "inputs.name", f"The input {shorten_text(name, 80)!a} can't be a variable name.", remedy
    )


def _check_encoding(name: str, value: JsonValue) -> Finding | None:
    """Return a finding if the container couldn't decode a value, or None if it could."""
    if not isinstance(value, list | dict):
        return None
    try:
        restore_tagged(value)
    except (ValueError, TypeError, OverflowError) as problem:
        why = shorten_text(str(problem), 200)
    except RecursionError:
        why = "it is nested too deeply"
    else:
        return None
    remedy = f"Tags are {', '.join(TAGS)}; each has its form in the result contract."
    return _build_inputs_finding("inputs.encoding", f"The input '{name}' can't be read: {why}.", remedy)


def _check_type(declaration: Declaration, value: JsonValue, text: str) -> Iterator[Finding]:
    name, actual = declaration.name, code_types.infer_type(value)
    if not code_types.matches_type(actual, declaration.types):
        message = f"The input '{name}' is declared as {declaration.shown(text)}, but its value is {actual}."
        yield finding_at(declaration, text, "inputs.type", message, _suggest_type_fix(declaration, actual))
    elif declaration.has_value:
        message = f"The input '{name}' has a value, but the code replaces it at its declaration."
        remedy = f"Declare it without a value: {name}: {declaration.shown(text)}"
        yield _as_warning(finding_at(declaration, text, "inputs.overwritten", message, remedy))


def _suggest_type_fix(declaration: Declaration, actual: str) -> str:
    """Return the suggestion to change the declaration or, unless the value is None, the value."""
    name = declaration.name
    if actual == "None":
        optional = code_types.format_types({*declaration.types, "None"})
        return f"Declare that it can be None, and handle that: {name}: {optional}"
    way = code_types.suggest_conversion(actual, declaration.types, name)
    by_code = f", and convert it in the code: {way}" if way else ""
    return (
        f"Declare the actual type: {name}: {actual}{by_code}. "
        f"Or pass {code_types.format_types(declaration.types)}."
    )


def _build_missing_value_finding(declaration: Declaration, text: str) -> Finding:
    message = f"'{declaration.name}' is declared, but neither passed nor assigned."
    remedy = f"Pass '{declaration.name}' in the inputs, or remove the line."
    return _as_warning(finding_at(declaration, text, "inputs.not_given", message, remedy))


def _build_missing_module_finding(module: str) -> Finding:
    return _as_warning(
        _build_inputs_finding(
            "inputs.requires",
            f"The image doesn't have the required module {module!a}; it has Python's standard library.",
            f"Use {describe_replacement(guess_module(module))} instead.",
        )
    )


def _as_warning(finding: Finding) -> Finding:
    return replace(finding, severity=Severity.WARNING)


def _build_inputs_finding(rule: str, message: str, suggestion: str) -> Finding:
    return Finding(rule=rule, category="inputs", message=message, suggestion=suggestion)
