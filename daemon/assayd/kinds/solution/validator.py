"""Validates solutions: code that hidden tests call, isolated in a process separate from the tests.

The static stages check that the code is valid Python and defines the entry point, and that the tests are
valid Python and contain at least one test. Each test then runs in its process, and a fresh copy of the
solution runs in a second process. Calls and results are passed between the two processes as values. The
score is the share of passed tests. Source: docs/kinds/solution.md.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from assayd.findings import python_failures
from assayd.findings import runs as run_findings
from assayd.findings.expected import VALUE_COMPARISON_RULES
from assayd.kind import Cap, FailureAction, Kind, Stage
from assayd.kinds.solution import judging
from assayd.kinds.solution.collecting import (
    collect_tests,
    find_preload_modules,
    find_solution_modules,
    find_used_names,
)
from assayd.kinds.solution.judging import judge_tests
from assayd.kinds.solution.payload import (
    MAX_HIDDEN_TESTS,
    SAMPLES,
    HiddenTest,
    PreparedSolution,
    RevealLevel,
    SolutionPayload,
)
from assayd.model.finding import Finding, Rule
from assayd.model.policy import ExecutionPolicy
from assayd.model.prompting import Document, PromptContext, RepairContext, SourcePart
from assayd.model.report import Judgement
from assayd.model.run import Limits, PairedArguments, Program, RunResult, RunSpec, Unit
from assayd.static.python import model_answer
from assayd.static.python import source as python_source
from assayd.static.python.source import normalize_source as python_normal_form

_SHOWN_CHARS = 8000
_HEADLINES: Mapping[str, str] = {
    "syntax": "The solution isn't valid Python, or lacks its entry point:",
    "tests": "The hidden tests can't be run:",
    "sandbox": "The solution ran, but didn't pass all hidden tests:",
}
_RULES = (
    *model_answer.RULES,
    *python_source.RULES,
    Rule(
        id="entry_point.missing",
        title="Entry point not defined",
        help="Bad: entry_point 'total', but the code defines only sum_all. Good: def total(values): …",
    ),
    Rule(
        id="tests.syntax",
        title="The tests aren't valid Python",
        help="Bad: assert f(1) = 2. Good: assert f(1) == 2",
    ),
    Rule(
        id="tests.missing",
        title="No test found",
        help=f"Bad: tests 'x = 1'. Good: 1 to {MAX_HIDDEN_TESTS} tests in one of the forms of the kind.",
    ),
    *run_findings.CAUSE_RULES,
    *run_findings.POLICY_RULES,
    run_findings.LIMIT_RULE,
    run_findings.NOT_COMPILED_RULE,
    *python_failures.RULES,
    *judging.RULES,
)


class SolutionKind(Kind[SolutionPayload, PreparedSolution]):
    """The validator of the kind `solution`."""

    name = "solution"
    payload = SolutionPayload
    prepared = PreparedSolution
    bounded = MappingProxyType(
        {
            "code": Cap.SOURCE,
            "tests": Cap.SOURCE,
            "tests.*": Cap.SOURCE,
            "context": Cap.SOURCE,
            "cases": Cap.INPUTS,
        }
    )
    default_policy = "solution"
    any_image = True
    rules = _RULES
    samples = SAMPLES
    headlines = _HEADLINES
    reminders = ("Write one file of Python that defines the entry point; hidden tests call it.",)
    offer = "Python's standard library"
    comparison = VALUE_COMPARISON_RULES

    @property
    def stages(self) -> Sequence[Stage[SolutionPayload]]:
        """Return the static stages, in order."""
        return (
            Stage(name="syntax", check=_check_syntax, on_fail=FailureAction.STOP),
            Stage(name="tests", check=_check_tests, on_fail=FailureAction.STOP),
        )

    def prepare(self, payload: SolutionPayload) -> PreparedSolution:
        """Return the payload with the code extracted from the answer, and the tests by name."""
        code = model_answer.extract_code(payload.code).text
        trees = _parse_test_texts(payload)
        text = isinstance(payload.tests, str)
        return PreparedSolution.model_construct(
            **{**dict(payload), "code": code},
            hidden=_apply_visible_names(
                collect_tests(payload, trees[0] if text and trees else None), payload.reveal
            ),
            names=find_used_names(trees),
            modules=find_solution_modules(trees),
            needed=find_preload_modules(code, payload.context, *_list_test_texts(payload)),
        )

    def plan(self, payload: SolutionPayload, policy: ExecutionPolicy, limits: Limits) -> RunSpec:
        """Plan a pair of processes for each test."""
        if not isinstance(payload, PreparedSolution):
            payload = self.prepare(payload)
        units = tuple(
            Unit(
                name=test.name,
                program=Program.TESTS,
                arguments={"do": test.do, **test.details},
                deadline_s=limits.unit_timeout_s,
            )
            for test in payload.hidden
        )
        return RunSpec(
            image=self.select_image(policy),
            limits=limits,
            units=units,
            network=policy.network,
            imports=policy.imports,
            needed=payload.needed,
            paired=_pair_arguments(payload),
        )

    def judge(self, payload: PreparedSolution, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Count the passed tests. Report the details of failed tests as far as the profile reveals them."""
        return judge_tests(payload, result)

    def integrity(self, payload: SolutionPayload) -> str:
        """Return how the tests are isolated from the solution, which is the basis of the score."""
        if not payload.trust_objects:
            return "separated"
        return "trusted: objects of the solution compare themselves (trust_objects)"

    def get_code(self, answer: str) -> str:
        """Return the Python code of an answer."""
        return model_answer.extract_code(answer).text

    def passage(self, payload: SolutionPayload) -> SourcePart:
        """Return the code extracted from the answer."""
        return SourcePart(name="code", language="python", text=self.get_code(payload.code))

    def surroundings(self, payload: SolutionPayload) -> Sequence[PromptContext]:
        """Return the entry point, the context, and the tests if the request reveals them."""
        around = [PromptContext(title="entry point", text=payload.entry_point)]
        if payload.context.strip():
            around.append(PromptContext(title="context", text=payload.context[:_SHOWN_CHARS]))
        if payload.reveal is RevealLevel.ALL:
            texts = _list_test_texts(payload) or [case.model_dump_json() for case in payload.cases]
            around.append(PromptContext(title="tests", text="\n".join(texts)[:_SHOWN_CHARS]))
        return around

    def context(
        self, payload: SolutionPayload, report: Document, policy: ExecutionPolicy | None = None
    ) -> RepairContext:
        """Return the context of a repair. Include the comparison rules only if the cases are revealed."""
        shown = payload if payload.reveal is RevealLevel.ALL else payload.model_copy(update={"cases": ()})
        return super().context(shown, report, policy)

    def normalize_text(self, payload: SolutionPayload) -> bytes:
        """Return the syntax tree of the code."""
        return python_normal_form(model_answer.extract_code(payload.code).text)


def _pair_arguments(payload: PreparedSolution) -> PairedArguments:
    """Return the arguments of the solution's process, and the arguments of the tests' process."""
    tests = payload.tests
    return PairedArguments(
        solution={"code": payload.code, "context": payload.context, "entry_point": payload.entry_point},
        tests={
            "text": tests if isinstance(tests, str) else "",
            "texts": list(tests) if isinstance(tests, tuple) else [],
            "context": payload.context,
            "entry_point": payload.entry_point,
            "names": list(payload.names),
            "modules": list(payload.modules),
            "trusted": payload.trust_objects,
        },
    )


def _apply_visible_names(tests: tuple[HiddenTest, ...], reveal: RevealLevel) -> tuple[HiddenTest, ...]:
    """Return the tests under names that can be shown in reports, events and logs."""
    if reveal.includes(RevealLevel.NAMES):
        return tests
    return tuple(test.model_copy(update={"name": f"test {n}"}) for n, test in enumerate(tests, 1))


def _list_test_texts(payload: SolutionPayload) -> list[str]:
    if payload.tests is None:
        return []
    return [payload.tests] if isinstance(payload.tests, str) else list(payload.tests)


def _parse_test_texts(payload: SolutionPayload) -> list[ast.Module]:
    parsed = (python_source.parse_source(text).tree for text in _list_test_texts(payload))
    return [tree for tree in parsed if tree is not None]


def _check_syntax(payload: SolutionPayload, _: ExecutionPolicy) -> Sequence[Finding]:
    """Check syntax and entry point: ``def total(values) return 1`` -> syntax.missing_colon."""
    answer = model_answer.extract_code(payload.code)
    source = python_source.parse_source(answer.text)
    found = (*answer.findings, *source.findings)
    if source.tree is None or _can_bind_name(source.tree, payload.entry_point):
        return found
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    defined = [node.name for node in source.tree.body if isinstance(node, definitions)]
    named = f"; it defines {', '.join(defined[:5])}" if defined else ""
    return (
        *found,
        Finding(
            rule="entry_point.missing",
            category="entry_point",
            message=f"The code doesn't define the entry point: {payload.entry_point}{named}",
            suggestion=f"Define {payload.entry_point} at module level.",
        ),
    )


def _can_bind_name(tree: ast.Module, name: str) -> bool:
    """Return whether any code of a module could bind a name, e.g. by a star import or `exec`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound) | ast.ClassDef(name=bound):
                if bound == name:
                    return True
            case ast.Name(id=bound, ctx=ast.Store()):
                if bound == name:
                    return True
            case ast.alias():
                if name in {node.asname, node.name} or node.name == "*":
                    return True
            case ast.Call(func=ast.Name(id="exec" | "globals" | "setattr")):
                return True
            case _:
                pass
    return False


def _check_tests(payload: SolutionPayload, _: ExecutionPolicy) -> Sequence[Finding]:
    """Check the tests: ``assert f(1) = 2`` -> tests.syntax; ``x = 1``, or too many -> tests.missing."""
    found = []
    for text in (*_list_test_texts(payload), payload.context):
        source = python_source.parse_source(text)
        if source.tree is None and source.findings[0].rule != "source.empty":
            problem = source.findings[0].message
            shown = (
                f": {problem}"
                if payload.reveal.includes(RevealLevel.MESSAGES) or text is payload.context
                else ""
            )
            found.append(
                _build_tests_finding("tests.syntax", f"The tests or their context aren't valid Python{shown}")
            )
    if found:
        return found
    count = len(collect_tests(payload, next(iter(_parse_test_texts(payload)), None)))
    if count == 0:
        return [_build_tests_finding("tests.missing", "The tests contain no test.")]
    if count > MAX_HIDDEN_TESTS:
        return [
            _build_tests_finding("tests.missing", f"The tests contain more than {MAX_HIDDEN_TESTS} tests.")
        ]
    return []


def _build_tests_finding(rule: str, message: str) -> Finding:
    return Finding(
        rule=rule,
        category="tests",
        message=message,
        suggestion="Correct the request's tests; the solution isn't at fault.",
    )


validator = SolutionKind()
