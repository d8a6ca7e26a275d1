"""Judges one `pytest` unit: compares the tests that ran with the source, and reports how they ended.

The record is used only if the unit ended in a way that permits one, and if the record is consistent with
itself, with the exit code in the wait status, and with the tests in the source.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assayd.findings.exception_hints import find_misspelling_edit, suggest_exception_fix, suggest_fix_by_type
from assayd.findings.network_rules import suggest_network_fix
from assayd.findings.runs import (
    EXIT_EVENT,
    NOT_COMPILED_RULE,
    build_cause_finding,
    describe_limit,
    describe_time_use,
    iter_file_events,
    merge_similar_findings,
    suggest_timeout_fix,
)
from assayd.findings.source_text import get_snippet
from assayd.guest_results import GuestJsonError, RaisedException
from assayd.kinds.module.expected_tests import ExpectedTests
from assayd.kinds.module.explained import add_explanation, explain_unexpected_exception
from assayd.kinds.module.files import is_python, is_test, module_name
from assayd.kinds.module.places import ModuleFiles, index_files
from assayd.kinds.module.pytest_record import FinishedTest, LineCoverage, PytestRecord, parse_record
from assayd.model.finding import Finding, Layer, Rule, has_errors
from assayd.model.report import Case, CaseStatus
from assayd.model.run import Cause, UnitResult
from assayd.model.text_limits import shorten_text

RULES = (
    Rule(id="tests.failed", title="A test failed", help="Bad: assert transform(raw) == wrong."),
    Rule(id="tests.error", title="Setup or teardown of a test failed"),
    Rule(
        id="tests.exited",
        title="The tests tried to end the process",
        help="Bad: sys.exit(0) in a test. Good: pytest.raises(SystemExit) around what exits.",
    ),
    Rule(id="tests.import_failed", title="A test file can't be imported"),
    Rule(id="tests.not_collected", title="A test wasn't collected"),
    Rule(id="tests.unexpected", title="An unknown test ran"),
    Rule(id="tests.not_run", title="Tests didn't run because another ended them"),
    Rule(id="tests.too_many", title="Too many tests", help="One file may have 1000 tests."),
    Rule(id="tests.hung", title="A test didn't end in time", help="Bad: while True in the tested code."),
    Rule(
        id="tests.tampered",
        title="Tests modified the test framework",
        help="Bad: pytest.Function.runtest = …. Good: tests that pass by themselves.",
    ),
    Rule(id="tests.contradicted", title="Reports of the tests contradict each other"),
    Rule(id="tests.none_ran", title="No test ran"),
    Rule(id="tests.all_skipped", title="All tests were skipped", help="At least one test must run."),
)

CATEGORY = "test_failure"
_SELF_ENDED_CAUSES = frozenset({Cause.COMPLETED, Cause.EXITED_NONZERO, Cause.POLICY_VIOLATION})
_STATUSES = {
    "passed": CaseStatus.PASSED,
    "xpassed": CaseStatus.PASSED,
    "failed": CaseStatus.FAILED,
    "error": CaseStatus.ERROR,
    "skipped": CaseStatus.SKIPPED,
    "xfailed": CaseStatus.SKIPPED,
}
_EXITS = frozenset({"SystemExit", "Exit", "KeyboardInterrupt"})
_SYNTAX = frozenset({"SyntaxError", "IndentationError", "TabError"})
_EXIT_ADVICE = "Let tests end normally; expect an exit with pytest.raises(SystemExit)."
_NOT_AWAITED = "async def function and no async plugin"
"""The framework's message for skipping a test that returned a coroutine; ``async def`` tests are awaited."""
_MAX_LISTED = 5

Texts = ModuleFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedFile:
    """One test file with the results of its tests."""

    __test__ = False

    cases: tuple[Case, ...] = ()
    findings: tuple[Finding, ...] = ()
    coverage: LineCoverage | None = None


def judge_tests(
    file: str, unit: UnitResult | None, texts: Mapping[str, str], expected: ExpectedTests
) -> TestedFile:
    """Return the results of the unit that ran a file's tests. `unit` is None if it never started.

    Args:
        file: the file's name.
        unit: the unit's result.
        texts: the Python files by name, in one index for all test files of a run.
        expected: the tests in the file's source.
    """
    files = index_files(texts)
    if unit is None:
        return TestedFile(cases=tuple(_build_unstarted_case(f"{file}::{name}") for name in expected.certain))
    events = tuple(_event_findings(file, unit, files))
    try:
        told = _parse_unit_record(unit)
    except GuestJsonError as problem:
        unknown = (f"{file}::{name}" for name in expected.certain)
        return TestedFile(
            cases=tuple(Case(name=name, status=CaseStatus.ERROR, message=str(problem)) for name in unknown),
            findings=(*events, _build_contradiction_finding(file, str(problem))),
        )
    findings = [*events, *_iter_reported_failures(file, told, files)]
    if told.final is not None:
        findings += _compare_collected(file, told, expected)
    elif not has_errors(findings) or unit.outcome.cause is Cause.TIMEOUT:
        findings.append(_build_interrupted_finding(file, unit, told))
    if told.final is not None and not told.final.good and not has_errors(findings):
        findings.append(_build_contradiction_finding(file, "the process failed without a reported reason"))
    coverage = told.final.coverage if told.final is not None else None
    cases = tuple(_build_cases(file, unit, told, expected))
    return TestedFile(cases=cases, findings=tuple(findings), coverage=coverage)


def build_no_tests_ran_finding(cases: Sequence[Case], files: Sequence[str]) -> Finding:
    """Return the finding for a module in which no test passed or failed."""
    skipped = bool(cases)
    reasons = ", ".join(dict.fromkeys(case.message for case in cases if case.message))
    said = f" ({shorten_text(reasons, 200)})" if reasons else ""
    return Finding(
        rule="tests.all_skipped" if skipped else "tests.none_ran",
        category=CATEGORY,
        message=f"All tests were skipped{said}." if skipped else f"No test ran of {', '.join(files)}.",
        layer=Layer.RUNTIME,
        file=files[0] if files else None,
        suggestion="Let at least one test run, without network and without modules that the image lacks.",
    )


def _parse_unit_record(unit: UnitResult) -> PytestRecord:
    """Parse a unit's record, which must be complete if the unit ended by itself.

    Raises: GuestJsonError, if the record contradicts itself or the way in which the process ended.
    """
    own_end = unit.outcome.cause in _SELF_ENDED_CAUSES
    if unit.outcome.cause is Cause.PROTOCOL_VIOLATION or (own_end and unit.malformed is not None):
        raise GuestJsonError(unit.malformed or f"{len(unit.results)} records instead of one")
    own_end = own_end and len(unit.results) == 1
    told = parse_record(unit.results[0] if unit.results else b"", whole=own_end)
    if told.final is not None:
        if told.final.good is not (unit.wait_status == 0):
            raise GuestJsonError("the record contradicts the exit code")
        if told.final.good and not _is_successful(told):
            raise GuestJsonError("the record claims success, but its lines show a failure")
    return told


def _is_successful(told: PytestRecord) -> bool:
    outcomes = {ended.outcome for ended in told.ended}
    whole = told.import_skipped is not None or (
        told.collected is not None and len(told.ended) == len(told.collected)
    )
    troubled = told.not_imported or told.not_collected or told.too_many or told.stopped
    noted = told.final is not None and told.final.notes
    return whole and not troubled and not noted and not outcomes & {"failed", "error"}


def _event_findings(file: str, unit: UnitResult, texts: Texts) -> Iterator[Finding]:
    """Yield the findings about violations of the run-time policy."""
    for event, finding in iter_file_events(file, unit.events, texts):
        if event.kind == EXIT_EVENT:
            message = "The code called os._exit."
            yield replace(
                finding, rule="tests.exited", category=CATEGORY, message=message, suggestion=_EXIT_ADVICE
            )
        elif event.kind == "import" and event.detail.partition(".")[0] not in sys.stdlib_module_names:
            yield _suggest_own_module(finding, event.detail, file, texts)
        else:
            yield finding


def _list_own_modules(texts: Texts) -> str:
    """Return the names of the module's files that a test can import, separated by commas."""
    return ", ".join(sorted(module_name(name) for name in texts if is_python(name) and not is_test(name)))


def _suggest_own_module(finding: Finding, module: str, file: str, texts: Texts) -> Finding:
    """Add the existing files to a finding about a missing module (usually an argument of `patch`)."""
    own = _list_own_modules(texts)
    lines = texts.lines(texts.get(file, ""))
    named = re.compile(rf"['\"]{re.escape(module)}[.'\"]")
    line = finding.line or next((n for n, each in enumerate(lines, 1) if named.search(each)), None)
    return replace(
        finding,
        message=f"{shorten_text(module, 100)!r} is neither a file of the module nor allowed by the policy.",
        line=line,
        snippet=get_snippet(texts.get(file, ""), line),
        suggestion='Name the file that uses it, as in patch("adapter.requests.get"): '
        f"{shorten_text(own, 300)}.",
    )


def _iter_reported_failures(file: str, told: PytestRecord, texts: Texts) -> Iterator[Finding]:
    """Yield the findings about the reported failures."""
    if told.not_imported is not None:
        yield _build_import_failure_finding(file, told.not_imported, texts)
    for raised in told.not_collected:
        found = _build_exception_finding(
            raised, file, texts, "tests.import_failed", "Its tests can't be collected"
        )
        yield _explain_failure(found, raised, texts)
    if told.too_many is not None:
        yield _build_pytest_finding(
            "tests.too_many",
            file,
            f"{file} has {told.too_many} tests.",
            "Use fewer parameters, or more files.",
        )
    yield from _iter_test_failures(file, told, texts)
    for ended in told.ended:
        if ended.outcome == "skipped" and _NOT_AWAITED in ended.reason:
            message = f"{ended.id} returned a coroutine that wasn't awaited."
            yield _build_pytest_finding(
                "tests.never_runs", file, message, "Write async def, and await the call in the test."
            )
    if told.stopped is not None:
        left = len(told.collected or ()) - len(told.ended)
        rule = "tests.exited" if _is_exit(told.stopped) else "tests.error"
        found = _build_exception_finding(
            told.stopped, file, texts, rule, f"{told.running or file} ended all tests"
        )
        yield replace(found, context=f"{left} tests did not run")
    for note in told.final.notes if told.final else ():
        suggestion = "Don't modify the test framework; make the tests pass."
        yield _build_pytest_finding("tests.tampered", file, f"{note}.", suggestion)


def _iter_test_failures(file: str, told: PytestRecord, texts: Texts) -> Iterator[Finding]:
    bad = (ended for ended in told.ended if ended.outcome in {"failed", "error"})
    for finding in merge_similar_findings(
        (ended.id, _build_test_failure_finding(file, ended, texts)) for ended in bad
    ):
        yield replace(finding, message=shorten_text(f"{finding.context}: {finding.message}"))


def _build_test_failure_finding(file: str, ended: FinishedTest, texts: Texts) -> Finding:
    rule = "tests.failed" if ended.outcome == "failed" else "tests.error"
    step = {"setup": " (during setup)", "teardown": " (during teardown)"}.get(ended.step, "")
    if ended.raised is None:
        return _build_pytest_finding(
            rule, file, f"{ended.reason or 'it failed'}{step}", "Compare with the test's expectation."
        )
    rule = "tests.exited" if _is_exit(ended.raised) else rule
    return _explain_failure(
        _build_exception_finding(ended.raised, file, texts, rule, "", step), ended.raised, texts, ended.id
    )


def _build_import_failure_finding(file: str, raised: RaisedException, texts: Texts) -> Finding:
    if _is_exit(raised):
        return _build_exception_finding(
            raised, file, texts, "tests.exited", f"{file} ends the process at import"
        )
    rule = NOT_COMPILED_RULE.id if raised.error_type in _SYNTAX else "tests.import_failed"
    found = _explain_failure(
        _build_exception_finding(raised, file, texts, rule, f"{file} can't be imported"), raised, texts
    )
    if raised.error_type == "ModuleNotFoundError":
        own = _list_own_modules(texts)
        return replace(
            found,
            suggestion=f"Import what the image has, or the module's own files: {shorten_text(own, 300)}.",
        )
    if raised.error_type == "ImportError" and raised.meant is None:
        return replace(found, suggestion="Define the name in that module, or import an existing one.")
    return found


_NOT_ALLOWED_PATTERN = re.compile(r"^import of '(\w{1,100})[.\w]*+' is not allowed by the policy")
_FIXTURE_PATTERN = re.compile(r"^\('(\w{1,100})', <FixtureRequest")
"""The text of pytest's FixtureLookupError; the missing fixture comes first."""


def _build_exception_finding(
    raised: RaisedException,
    file: str,
    texts: Texts,
    rule: str,
    subject: str,
    remark: str = "",
) -> Finding:
    text = texts.get(raised.file or "", "")
    place = get_snippet(text, raised.line)
    told = f"{raised.error_type}: {raised.message}".removesuffix(": ")
    plain = _get_general_advice(rule, raised)
    read = (plain is None or raised.meant is not None) and texts.try_spend_advice()
    hint = _get_source_advice(raised, text) if plain is None and read else plain
    return Finding(
        rule=rule,
        category=CATEGORY,
        message=shorten_text(f"{subject}: {told}{remark}" if subject else f"{told}{remark}"),
        layer=Layer.RUNTIME,
        file=raised.file if place is not None else file,
        line=raised.line if place is not None else None,
        snippet=place,
        suggestion=suggest_fix_by_type(raised.error_type) if hint is None else hint,
        edit=find_misspelling_edit(raised, text) if read and rule != "tests.exited" else None,
    )


def _explain_failure(finding: Finding, raised: RaisedException, texts: Texts, test: str = "") -> Finding:
    """Return the finding with an explanation of the failure.

    Beyond the limit, only explanations of equal failures are reused.
    """
    if finding.rule == "tests.exited":
        return finding
    key = (finding.rule, finding.file, finding.line, raised.error_type, _strip_parameters(test))
    if not texts.try_spend_explanation():
        return texts.known.get(key, finding)
    made = explain_unexpected_exception(add_explanation(finding, raised, texts, test), raised, texts, test)
    texts.known.setdefault(key, made)
    return made


def _get_general_advice(rule: str, raised: RaisedException) -> str | None:
    """Return a hint that doesn't depend on the source code, or None if there is none."""
    if rule == "tests.exited":
        return _EXIT_ADVICE
    if raised.error_type.rpartition(".")[2] == "AssertionError":
        return "Change the code so that it returns the expected result."
    strange = _NOT_ALLOWED_PATTERN.match(raised.message)
    if strange is not None and strange[1] not in sys.stdlib_module_names:
        return (
            f'The module {strange[1]!r} doesn\'t exist. Use a file of the module, as in patch("adapter.…").'
        )
    if (fixture := _FIXTURE_PATTERN.match(raised.message)) is not None:
        return (
            f"The fixture {fixture[1]!r} doesn't exist: the image has only pytest and "
            "pytest-asyncio. Define it in the file, or use monkeypatch or unittest.mock.patch."
        )
    return None


def _get_source_advice(raised: RaisedException, text: str) -> str:
    return suggest_network_fix(raised.error_type, raised.message, text) or suggest_exception_fix(raised, text)


def _compare_collected(file: str, told: PytestRecord, expected: ExpectedTests) -> Iterator[Finding]:
    """Yield the differences between the collected tests and those in the source."""
    if told.collected is None or told.too_many is not None:
        return
    prefix = f"{file}::"
    ran = {_strip_parameters(name.removeprefix(prefix)) for name in told.collected if name.startswith(prefix)}
    strange = [name for name in told.collected if not name.startswith(prefix)]
    strange += sorted(ran - {*expected.certain, *expected.possible})
    if strange:
        message = f"{file} doesn't contain {_join_names(strange)}, which ran."
        yield _build_pytest_finding(
            "tests.unexpected", file, message, "Write the tests as functions in the file."
        )
    if missing := [name for name in expected.certain if name not in ran]:
        message = f"{file} contains {_join_names(missing)}, which wasn't collected."
        yield _build_pytest_finding(
            "tests.not_collected", file, message, "Don't remove tests while the file runs."
        )
    left = len(told.collected) - len(told.ended)
    if left and told.stopped is None and not told.not_collected:
        yield _build_pytest_finding(
            "tests.not_run", file, f"{left} tests of {file} didn't run.", "Let every test run."
        )


def _build_interrupted_finding(file: str, unit: UnitResult, told: PytestRecord) -> Finding:
    """Return the finding for a unit that didn't end by itself."""
    what = told.running or (f"The import of {file}" if told.collected is None else f"The unit of {file}")
    if unit.outcome.cause is Cause.TIMEOUT:
        message = f"{what} didn't end in time{describe_time_use(unit)}."
        return replace(
            _build_pytest_finding("tests.hung", file, message, suggest_timeout_fix(unit)),
            context=told.running,
        )
    return replace(build_cause_finding(unit.outcome.cause, what, describe_limit(unit)), file=file)


def _is_exit(raised: RaisedException) -> bool:
    return raised.error_type.rpartition(".")[2] in _EXITS


def _build_contradiction_finding(file: str, problem: str) -> Finding:
    message = f"Reports of the tests of {file} contradict each other: {problem}."
    return _build_pytest_finding("tests.contradicted", file, message, "Don't write to foreign descriptors.")


def _build_pytest_finding(rule: str, file: str, message: str, suggestion: str) -> Finding:
    return Finding(
        rule=rule,
        category=CATEGORY,
        message=shorten_text(message),
        layer=Layer.RUNTIME,
        file=file,
        suggestion=suggestion,
    )


def _build_cases(file: str, unit: UnitResult, told: PytestRecord, expected: ExpectedTests) -> Iterator[Case]:
    """Yield a case for each test, whether it finished, was interrupted or never started."""
    for ended in told.ended:
        yield _build_case(ended)
    seen = {ended.id for ended in told.ended}
    if told.running is not None:
        seen.add(told.running)
        message = (
            f"ended by {unit.outcome.cause.replace('_', ' ')}" if not unit.outcome.completed else "no end"
        )
        yield Case(name=told.running, status=CaseStatus.ERROR, cause=unit.outcome.cause, message=message)
    known = told.collected if told.collected is not None else [f"{file}::{name}" for name in expected.certain]
    for name in known:
        if name not in seen:
            yield _build_unstarted_case(name, told.import_skipped)


def _build_case(ended: FinishedTest) -> Case:
    status, raised = _STATUSES[ended.outcome], ended.raised
    bad = status in {CaseStatus.FAILED, CaseStatus.ERROR}
    reason = f"expected to fail: {ended.reason}" if ended.outcome == "xfailed" else ended.reason
    return Case(
        name=ended.id,
        status=status,
        cause=Cause.EXITED_NONZERO if bad else Cause.COMPLETED,
        error_type=raised.error_type if raised else None,
        message=raised.message if raised else (reason or None),
        traceback=raised.traceback if raised else None,
        file=raised.file if raised else None,
        line=raised.line if raised else None,
        stdout=ended.stdout,
        stderr=ended.stderr,
        duration_s=ended.duration_s,
    )


def _build_unstarted_case(name: str, message: str | None = None) -> Case:
    return Case(name=name, status=CaseStatus.SKIPPED, message=message or "never started")


def _strip_parameters(name: str) -> str:
    """Return a test's name without its parameters."""
    return name.partition("[")[0]


def _join_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_LISTED
    return shorten_text(", ".join(names[:_MAX_LISTED]), 400) + (f" and {more} more" if more > 0 else "")
