"""Judges the `python` unit that imports an adapter and inspects the classes that it registers.

The daemon provides the unit's source. The unit and the module's tests run in separate processes. The unit
observes facts that static checks can't: the actual effects of an import, and the actual members of a class.

    raise RuntimeError at the top      contract.import_failed
    if False: @register_adapter …      contract.not_registered
    get_schema = None                  contract.not_callable
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from assayd.findings.exception_hints import find_misspelling_edit, suggest_exception_fix
from assayd.findings.runs import (
    EXIT_EVENT,
    NOT_COMPILED_RULE,
    build_cause_finding,
    build_timeout_finding,
    describe_limit,
    iter_file_events,
    point_to_endless_loops,
)
from assayd.findings.source_text import get_snippet
from assayd.guest_results import (
    BoundNames,
    CompileFailure,
    GuestJsonError,
    RaisedException,
    Record,
    parse_guest_record,
)
from assayd.kinds.module.explained import add_explanation
from assayd.model.finding import Finding, Layer, Rule, has_errors
from assayd.model.policy import AdapterContract
from assayd.model.run import Cause, UnitResult
from assayd.model.text_limits import shorten_text

RULES = (
    Rule(id="contract.import_failed", title="The adapter can't be imported"),
    Rule(id="contract.not_registered", title="Importing the adapter registers no class"),
    Rule(id="contract.not_callable", title="A method of the registered class isn't callable"),
)

FILENAME = "contract.py"
RESULT = "found"
_CATEGORY = "missing_method"
_RECORD_CAUSES = frozenset({Cause.COMPLETED, Cause.EXITED_NONZERO, Cause.POLICY_VIOLATION})

_PROBE_TEMPLATE = """
from {provided} import registered as _registered
import {adapter}


def _form(value):
    inner = getattr(value, "__func__", value)
    return "missing" if value is None else "callable" if callable(inner) else type(value).__name__


{result} = [
    {{
        "name": kind.__name__,
        "module": kind.__module__,
        "methods": {{name: _form(vars(kind).get(name)) for name in methods}},
    }}
    for kind in _registered()
]
"""


def build_probe(adapter: str, contract: AdapterContract) -> str:
    """Return the source code that imports the adapter's module and reports its registered classes."""
    return _PROBE_TEMPLATE.format(provided=contract.modules[0], adapter=adapter, result=RESULT)


def judge_adapter(
    file: str, unit: UnitResult | None, texts: Mapping[str, str], contract: AdapterContract
) -> tuple[Finding, ...]:
    """Return the findings about the unit that ran the probe.

    Return none if `unit` is None, i.e. if the unit never started.
    """
    if unit is None:
        return ()
    events = tuple(_iter_event_findings(file, unit, texts))
    try:
        record = _read_record(unit)
    except GuestJsonError as problem:
        return (
            *events,
            replace(build_cause_finding(Cause.PROTOCOL_VIOLATION, "The adapter", str(problem)), file=file),
        )
    if isinstance(record, RaisedException):
        return (*events, _build_raised_finding(file, record, texts))
    if isinstance(record, CompileFailure) or not isinstance(record, BoundNames) or not unit.outcome.completed:
        return (
            events
            if has_errors(events)
            else (*events, _build_failed_import_finding(file, unit, texts.get(file, "")))
        )
    return (*events, *_compare_class(file, record, contract))


def _read_record(unit: UnitResult) -> Record | None:
    if unit.outcome.cause not in _RECORD_CAUSES or len(unit.results) != 1 or unit.malformed is not None:
        return None
    return parse_guest_record(unit.results[0])


def _iter_event_findings(file: str, unit: UnitResult, texts: Mapping[str, str]) -> Iterator[Finding]:
    for event, finding in iter_file_events(file, unit.events, texts):
        if event.kind == EXIT_EVENT:
            message = "Importing the adapter ends the process."
            yield replace(finding, rule="contract.import_failed", category=_CATEGORY, message=message)
        else:
            yield finding


def _build_failed_import_finding(file: str, unit: UnitResult, text: str) -> Finding:
    cause = Cause.PROTOCOL_VIOLATION if unit.outcome.completed else unit.outcome.cause
    what = f"Importing {file}"
    if cause is Cause.TIMEOUT:
        return replace(point_to_endless_loops(build_timeout_finding(unit, what), text), file=file)
    return replace(build_cause_finding(cause, what, describe_limit(unit)), file=file)


def _build_raised_finding(file: str, record: RaisedException, texts: Mapping[str, str]) -> Finding:
    text = texts.get(record.file or "", "")
    place = get_snippet(text, record.line)
    told = f"{record.error_type}: {record.message}".removesuffix(": ")
    syntax = record.error_type in {"SyntaxError", "IndentationError", "TabError"}
    found = Finding(
        rule=NOT_COMPILED_RULE.id if syntax else "contract.import_failed",
        category="syntax" if syntax else _CATEGORY,
        message=shorten_text(f"{file} can't be imported: {told}"),
        layer=Layer.RUNTIME,
        file=record.file if place is not None else file,
        line=record.line if place is not None else None,
        snippet=place,
        suggestion=suggest_exception_fix(record, text),
        edit=find_misspelling_edit(record, text),
    )
    return add_explanation(found, record, texts)


def _compare_class(file: str, record: BoundNames, contract: AdapterContract) -> Iterator[Finding]:
    """Yield the differences between the registered class and the contract."""
    value = record.values.get(RESULT)
    classes = value.value if value is not None and isinstance(value.value, list) else []
    module = file.removesuffix(".py")
    own = [one for one in classes if isinstance(one, dict) and one.get("module") == module]
    if not own:
        how = " or ".join(f"@{name}" for name in contract.decorators)
        message = f"Importing {file} registered no class."
        yield _build_adapter_finding(
            "contract.not_registered", file, message, f"Put {how} above the class, at the top level."
        )
    for one in own:
        methods = one.get("methods")
        forms = methods if isinstance(methods, dict) else {}
        yield from _check_required_methods(file, str(one.get("name")), forms, contract.methods)


def _check_required_methods(
    file: str, name: str, forms: Mapping[str, object], wanted: Sequence[str]
) -> Iterator[Finding]:
    for method in wanted:
        form = forms.get(method)
        if form != "callable":
            what = "is missing" if form in {None, "missing"} else f"is {form}, not a function"
            message = shorten_text(f"After the import of {file}, {name}.{method} {what}.")
            yield _build_adapter_finding(
                "contract.not_callable", file, message, f"Define it in the class: def {method}(self, …):"
            )


def _build_adapter_finding(rule: str, file: str, message: str, suggestion: str) -> Finding:
    return Finding(
        rule=rule,
        category=_CATEGORY,
        message=message,
        layer=Layer.RUNTIME,
        file=file,
        suggestion=suggestion,
    )
