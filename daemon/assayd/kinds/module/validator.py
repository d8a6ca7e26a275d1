"""Validates adapter modules: a manifest, an adapter that other code calls, and the adapter's tests.

The static stages are syntax, contract, manifest and paths; all of them always run. Then, in one container,
the daemon inspects the adapter, and each test file runs in a separate process. Source:
docs/kinds/module.md.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from types import MappingProxyType

from assayd.findings import runs as run_findings
from assayd.findings.briefing import reduce_to_usual_imports
from assayd.findings.retry_context import (
    build_repair_context,
    depends_on_allowances,
    is_unreadable,
    list_errors,
)
from assayd.findings.source_text import add_correction
from assayd.kind import Cap, FailureAction, Kind, Stage
from assayd.kinds.module import adapter_unit, generating, mutants_trial, pytest_unit
from assayd.kinds.module import assertions as module_assertions
from assayd.kinds.module import contract as module_contract
from assayd.kinds.module import expected_tests as module_tests
from assayd.kinds.module import files as module_files
from assayd.kinds.module import forbidden as module_forbidden
from assayd.kinds.module import mistakes as module_mistakes
from assayd.kinds.module import pytest_record as module_coverage
from assayd.kinds.module.expected_tests import ExpectedTests, ModulePayload, PreparedModule
from assayd.kinds.module.explained import add_file_hints
from assayd.kinds.module.files import (
    find_adapter_file,
    is_python,
    is_test,
    list_own_modules,
    list_test_files,
    module_name,
)
from assayd.kinds.module.generating import (
    FIXED_TESTS_NOTE,
    MANIFEST_FIELDS,
    SAMPLES,
    ModuleContext,
    build_instructions,
)
from assayd.kinds.module.imports import ImportableModules, check_module_imports
from assayd.kinds.module.mutants import generate_mutants
from assayd.kinds.module.places import ModuleFiles
from assayd.model.finding import Finding, Layer, Rule, add_profile_keys, has_errors
from assayd.model.policy import AdapterContract, ExecutionPolicy, NetworkMode, RuleLevel
from assayd.model.prompting import Document, PromptContext, PromptParts, Proposal, RepairContext, SourcePart
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import TEMPORARY, Limits, Program, RunResult, RunSpec, Unit, UnitResult
from assayd.model.text_limits import FINDINGS
from assayd.static.python import imports as python_imports
from assayd.static.python import inferred_names as python_meant
from assayd.static.python import source as python_source
from assayd.static.python.safe_fixes import CompileBudget
from assayd.static.python.scopes import build_scoped_tree
from assayd.static.python.source import normalize_source as python_normal_form

CONTRACT_UNIT = "contract"

_PRELOAD = (
    "_pytest.runner", "_pytest.skipping", "_pytest.unittest", "_pytest.warnings", "aiohttp", "asyncio", "csv",
    "httpx", "pdb", "pydantic", "pytest", "pytest_asyncio.plugin", "requests", "statistics", "unittest.mock",
)  # fmt: skip
"""Modules of the default policy and of the test framework. Never names from a request."""

_HEADLINES = {
    "syntax": "A file of the module isn't valid Python:",
    "contract": "The module violates the adapter contract:",
    "manifest": "The manifest isn't valid:",
    "paths": "The files of the module aren't allowed:",
    "sandbox": "The module failed when it ran:",
}
_KEYS = {
    "attribute.dynamic": "enforcement",
    "attribute.internal": "enforcement",
    "attribute.not_allowed": "imports.names",
    "name.dunder": "enforcement",
}
_RULES = (
    *python_source.RULES,
    *python_meant.NAME_RULES,
    run_findings.NOT_COMPILED_RULE,
    *module_contract.RULES,
    *module_mistakes.RULES,
    *(rule for rule in python_imports.RULES if rule.id.startswith("import.")),
    *module_forbidden.RULES,
    *add_profile_keys(
        (
            Rule(
                id="attribute.dynamic",
                title="An attribute with a computed name",
                help="Bad: getattr(os, name).",
            ),
            Rule(
                id="attribute.internal",
                title="An attribute that exposes frames or code",
                help="Bad: f.__globals__.",
            ),
            Rule(
                id="attribute.not_allowed",
                title="A name that the policy doesn't allow",
                help="A profile can list the allowed names of a module.",
            ),
            Rule(id="name.dunder", title="A special name", help="Bad: __builtins__."),
        ),
        _KEYS,
    ),
    *module_tests.RULES,
    *module_assertions.RULES,
    *module_contract.MANIFEST_RULES,
    *module_files.RULES,
    *adapter_unit.RULES,
    *pytest_unit.RULES,
    *module_coverage.RULES,
    *mutants_trial.RULES,
    *run_findings.CAUSE_RULES,
    *run_findings.POLICY_RULES,
    run_findings.LIMIT_RULE,
)


_OTHER_FORMS = ('Or, to change several files: {"files": {"<name>": "<whole text>"}, "reason": "…"}.',)
_MANIFEST_RULE_PREFIXES = ("manifest.", "contract.", "tests.contradicted")


class ModuleKind(Kind[ModulePayload, PreparedModule]):
    """The validator of the kind `module`."""

    name = "module"
    payload = ModulePayload
    prepared = PreparedModule
    bounded = MappingProxyType({"files.*": Cap.SOURCE})
    checked_parts = ("files.*",)
    default_policy = "module_validation"
    image = "adapter"
    any_image = True
    rules = _RULES
    samples = SAMPLES
    headlines = _HEADLINES
    task = generating.TASK
    example = generating.EXAMPLE
    generation_context = ModuleContext
    forms = frozenset({"files"})

    @property
    def stages(self) -> Sequence[Stage[ModulePayload]]:
        """Return the static stages, in order."""
        checks = {
            "syntax": _check_syntax,
            "contract": _check_contract,
            "manifest": _check_manifest,
            "paths": _check_paths,
        }
        return tuple(
            Stage(name=name, check=_limit_findings(check), on_fail=FailureAction.CONTINUE)
            for name, check in checks.items()
        )

    def labels(self, payload: ModulePayload) -> Mapping[str, str]:
        """Return the manifest's category and platform, which are parts of the bundle's folder name.

        Omit each that is missing or isn't a string.
        """
        manifest = payload.manifest
        said = {name: manifest.get(name) for name in ("category", "platform")}
        return {name: value for name, value in said.items() if isinstance(value, str)}

    def prepare(self, payload: ModulePayload) -> PreparedModule:
        """Return the payload with normalized file texts and the tests that they contain."""
        texts = _normalize_texts(payload)
        trees = _parse_files(payload)
        expected = {file: module_tests.find_expected_tests(file, trees) for file in list_test_files(trees)}
        files = {**payload.files, **texts}
        adapter = trees.get(_get_adapter_file(payload))
        methods = module_coverage.find_methods(adapter) if adapter is not None else {}
        return PreparedModule(manifest=payload.manifest, files=files, expected=expected, methods=methods)

    def plan(self, payload: ModulePayload, policy: ExecutionPolicy, limits: Limits) -> RunSpec:
        """Plan one unit that inspects the adapter, and one unit per test file."""
        contract = policy.adapter
        modules = {
            "files": sorted(filter(is_python, payload.files)),
            "provided": list(contract.modules),
            "decorators": list(contract.decorators),
            "base_classes": list(contract.base_classes),
        }
        own = list_own_modules(payload.files) | {
            name for one in contract.modules for name in _iter_parent_packages(one)
        }
        return RunSpec(
            image=self.select_image(policy),
            limits=limits,
            units=tuple(_plan_units(payload, policy, modules, limits)),
            network=policy.network,
            imports=replace(policy.imports, allowed=policy.imports.allowed | own),
            folders=TEMPORARY,
            files={name: text.encode() for name, text in payload.files.items()},
            preload=_PRELOAD,
            needed=_PRELOAD,
        )

    def judge(self, payload: PreparedModule, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Judge the adapter and every test file. At least one test must have been executed."""
        texts = ModuleFiles({name: text for name, text in payload.files.items() if is_python(name)})
        contract = adapter_unit.judge_adapter(
            _get_adapter_file(payload), _find_unit(result, 0, CONTRACT_UNIT), texts, policy.adapter
        )
        files = list_test_files(payload.files)
        tested = [
            pytest_unit.judge_tests(
                file, _find_unit(result, place, file), texts, payload.expected.get(file, ExpectedTests())
            )
            for place, file in enumerate(files, 1)
        ]
        cases = tuple(case for one in tested for case in one.cases)
        found = [
            *contract,
            *_omit_repeated_failures(contract, (finding for one in tested for finding in one.findings)),
        ]
        if not has_errors(found) and result.outcome.completed:
            if not any(case.status is CaseStatus.PASSED for case in cases):
                found.append(pytest_unit.build_no_tests_ran_finding(cases, files))
            file = _get_adapter_file(payload)
            covered = [one.coverage for one in tested if one.coverage is not None]
            found += module_coverage.judge_coverage(
                file, texts.get(file, ""), payload.methods, policy.adapter.methods, covered
            )
        found = add_file_hints(found, payload.files)
        found = [add_correction(one, payload.files.get(one.file or "", "")) for one in found]
        disagreeing = tuple(f for f in found if f.rule == run_findings.NOT_COMPILED_RULE.id)
        others = tuple(f for f in found if f not in disagreeing)
        return Judgement(
            stage_findings={**({"syntax": disagreeing} if disagreeing else {}), "sandbox": others},
            cases=cases,
        )

    def prepare_trial(self, payload: PreparedModule, policy: ExecutionPolicy) -> PreparedModule:
        """Return the module with the changes to its adapter that the policy requests.

        Return it unchanged if the policy requests none, or if the adapter is missing.
        """
        text = payload.files.get(_get_adapter_file(payload))
        if text is None or not _should_try_mutants(policy):
            return payload
        return payload.model_copy(update={"mutants": generate_mutants(text, policy.quality.mutants)})

    def plan_trial(
        self, payload: PreparedModule, policy: ExecutionPolicy, limits: Limits, result: RunResult
    ) -> RunSpec | None:
        """Plan a run of the tests for each change to the adapter, or return None without changes."""
        if not payload.mutants:
            return None
        spec = self.plan(payload, policy, limits)
        return mutants_trial.plan_trial(
            spec, payload, _get_adapter_file(payload), _match_test_units(payload, result)
        )

    def judge_trial(
        self, payload: PreparedModule, policy: ExecutionPolicy, result: RunResult, trial: RunResult | None
    ) -> Mapping[str, Sequence[Finding]]:
        """Return the findings about the number of changes that the tests detect."""
        tests = _match_test_units(payload, result)
        return {"sandbox": mutants_trial.judge_trial(payload, _get_adapter_file(payload), tests, trial)}

    def list_requirements(self, policy: ExecutionPolicy | None) -> tuple[str, ...]:
        """Return the requirements for a module, and the policy's permissions for its files."""
        return build_instructions(policy)

    def context(
        self, payload: ModulePayload, report: Document, policy: ExecutionPolicy | None = None
    ) -> RepairContext:
        """Return the request to fix the file at fault, with the report's content and the other files."""
        errors = list_errors(report)
        name = module_files.find_faulty_file(errors, payload.files, _get_adapter_file(payload))
        tested, unreadable = module_files.has_failed_test(errors), is_unreadable(report)
        told = None if policy is None else reduce_to_usual_imports(policy)
        rules = build_instructions(told, tests=is_test(name), allowed=depends_on_allowances(report, ()))
        return build_repair_context(
            SourcePart(name=name, language="python", text=_normalize_texts(payload).get(name, "")),
            report,
            instructions=(*(() if unreadable else rules), *([FIXED_TESTS_NOTE] if tested else [])),
            runtime_stages=self.runtime_stages,
            other_forms=() if unreadable else _OTHER_FORMS,
            surroundings=() if unreadable else tuple(_iter_repair_context(payload, name, errors)),
            about=lambda hint: hint.get("file") in {None, name},
            others=() if tested else _list_other_files(payload, name),
        )

    def patch(self, payload: ModulePayload, passage: str, code: str) -> Document:
        """Return the payload with a new text for the file at fault."""
        document = payload.model_dump(mode="json", exclude_unset=True)
        return {**document, "files": {**document["files"], passage: code}}

    def normalize_text(self, payload: ModulePayload) -> bytes:
        """Return the syntax trees of all files."""
        texts = sorted(_normalize_texts(payload).items())
        return b"\n".join(name.encode() + b"\t" + python_normal_form(text) for name, text in texts)

    def brief(self, context: ModuleContext, policy: ExecutionPolicy) -> PromptParts:
        """Return the kind's part of the prompt."""
        rules = build_instructions(reduce_to_usual_imports(policy), tests=not generating.has_tests(context))
        manifest = () if context.manifest is not None else (MANIFEST_FIELDS,)
        return replace(
            super().brief(context, policy),
            task=generating.describe_task(context),
            rules=(*rules, *manifest),
            example=generating.build_example(context),
        )

    def around(self, context: ModuleContext) -> Sequence[PromptContext]:
        """Return the manifest and the files of the request."""
        return generating.describe_request_context(context)

    def base(self, context: ModuleContext) -> Document:
        """Return the payload without the parts that the answer supplies."""
        return generating.build_base_payload(context)

    def answered(self, base: Document, proposal: Proposal) -> Document:
        """Return the base payload with the files that the model proposed."""
        return generating.add_proposal(base, proposal)


def _iter_repair_context(
    payload: ModulePayload, name: str, errors: Sequence[Mapping[str, object]]
) -> Iterator[PromptContext]:
    """Yield the context of a file's fix: the manifest, if an error concerns it, and the other files.

    If all errors were found without a run, the file at fault is sufficient to explain them, so only the
    names of the other files are shown.
    """
    rules = [str(error.get("rule")) for error in errors]
    if any(rule.startswith(_MANIFEST_RULE_PREFIXES) for rule in rules):
        yield PromptContext(title="manifest", text=json.dumps(payload.manifest, sort_keys=True))
    said = {str(error.get("file")) for error in errors}  # first: not all files may have room
    others = sorted(payload.files.keys() - {name}, key=lambda other: (other not in said, other))
    if any(error.get("layer") == Layer.RUNTIME for error in errors) or module_files.has_failed_test(errors):
        yield from (PromptContext(title=other, text=payload.files[other]) for other in others)
    elif others:
        yield PromptContext(title="other files", text=", ".join(others))


def _list_other_files(
    payload: ModulePayload, name: str
) -> list[tuple[SourcePart, Callable[[Mapping[str, object]], bool]]]:
    """Return the other files, each with a predicate that decides whether a hint concerns the file."""
    return [
        (
            SourcePart(name=other, language="python", text=text),
            partial(lambda file, hint: hint.get("file") == file, other),
        )
        for other, text in _normalize_texts(payload).items()
        if other != name
    ]


def _normalize_texts(payload: ModulePayload) -> dict[str, str]:
    """Return the Python files in normalized form: LF line ends, no byte order mark."""
    return {
        name: text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        for name, text in payload.files.items()
        if is_python(name)
    }


def _parse_files(payload: ModulePayload) -> dict[str, ast.Module]:
    parsed = {name: python_source.parse_source(text).tree for name, text in _normalize_texts(payload).items()}
    return {name: tree for name, tree in parsed.items() if tree is not None}


def _get_adapter_file(payload: ModulePayload) -> str:
    return find_adapter_file(payload.files, payload.manifest.get("entrypoint")) or "adapter.py"


Check = Callable[[ModulePayload, ExecutionPolicy], Iterable[Finding]]


def _limit_findings(check: Check) -> Callable[[ModulePayload, ExecutionPolicy], Sequence[Finding]]:
    return lambda payload, policy: tuple(islice(check(payload, policy), FINDINGS))


def _check_syntax(payload: ModulePayload, policy: ExecutionPolicy) -> Iterator[Finding]:
    """Check syntax: ``class Weather`` -> syntax.missing_colon; ``re.match(…)`` -> name.not_imported."""
    trees = _parse_files(payload)
    own = module_mistakes.list_own_names(trees)
    texts = _normalize_texts(payload)
    misspelt = {
        name: list(module_mistakes.check_own_names(name, texts[name], tree, own))
        for name, tree in trees.items()
    }
    for name, text in _normalize_texts(payload).items():
        source = python_source.parse_source(text)
        for finding in (*source.findings, *python_meant.check_undefined_names(source, policy.imports)):
            if finding.rule == "source.empty" and name.rpartition("/")[2] == "__init__.py":
                continue
            if finding.rule == "name.undefined" and _is_misspelt_import(finding, misspelt.get(name, [])):
                continue
            undefined = finding.rule == "name.undefined"
            told = module_mistakes.suggest_self_prefix(finding, text) if undefined else finding
            yield replace(told, file=name)
        yield from misspelt.get(name, ())


def _is_misspelt_import(finding: Finding, misspelt: list[Finding]) -> bool:
    """Return whether a finding concerns a name that a misspelt import should have bound."""
    return any(
        finding.message.startswith(f"'{one}' ") for one in module_mistakes.find_intended_names(misspelt)
    )


def _check_contract(payload: ModulePayload, policy: ExecutionPolicy) -> Iterator[Finding]:
    """Check the contract: a class without get_schema -> contract.missing_method."""
    texts, trees = _normalize_texts(payload), _parse_files(payload)
    contract, modules = policy.adapter, list_own_modules(payload.files)
    own = ImportableModules(modules=modules, provided=frozenset(contract.modules))
    denied = policy.imports.denied if policy.imports.enforce_forbidden else frozenset()
    budget = CompileBudget.for_texts(texts[name] for name in trees)
    used = module_assertions.find_used_names(trees.values())
    adapter = find_adapter_file(payload.files, payload.manifest.get("entrypoint"))
    if adapter is None:
        yield module_contract.no_file(sorted(texts))
    for name, tree in trees.items():
        walked = build_scoped_tree(tree)
        formed = {(one.line, one.rule): one for one in module_contract.check_methods(name, texts[name], tree)}
        if name == adapter:
            told = module_contract.check_contract(name, texts[name], walked, contract)
            yield from (one for one in told if (one.line, one.rule) not in formed)
            for node in module_contract.find_registered_classes(walked, contract):
                yield from module_mistakes.check_decorator(
                    name, texts[name], node, payload.manifest, contract
                )
                yield from module_mistakes.check_base_class(name, texts[name], tree, node, contract)
        yield from formed.values()
        yield from module_mistakes.check_calls(name, texts[name], tree)
        yield from module_mistakes.check_secrets(name, texts[name], tree)
        yield from module_mistakes.check_dropped_results(name, texts[name], tree, budget)
        yield from module_mistakes.check_generators(name, texts[name], tree, contract)
        yield from module_mistakes.check_raised_strings(name, texts[name], tree)
        yield from module_mistakes.check_import_time(name, texts[name], tree)
        yield from check_module_imports(name, texts[name], walked, policy.imports, own)
        yield from module_forbidden.check_forbidden(
            name, texts[name], walked, denied | contract.forbidden, modules
        )
        if module_files.is_test(name):
            yield from module_tests.check_tests(name, texts[name], trees)
            yield from module_assertions.check_assertions(name, texts[name], tree, contract.methods, used)
    yield from module_mistakes.check_transports(texts, trees)
    yield from _check_tests(payload, trees, contract)


def _check_tests(
    payload: ModulePayload, trees: Mapping[str, ast.Module], contract: AdapterContract
) -> Iterator[Finding]:
    """Check the tests: no ``test_*.py`` file, or no test in these files -> tests.none_found."""
    files = list_test_files(payload.files)
    unread = any(file not in trees for file in files)
    found = [module_tests.find_expected_tests(file, trees) for file in files if file in trees]
    if not unread and not any(one.certain or one.possible for one in found):
        yield module_tests.build_no_tests_finding(files, contract.methods)


def _check_manifest(payload: ModulePayload, policy: ExecutionPolicy) -> Iterator[Finding]:
    """Check the manifest: ``{"version": "1.0"}`` -> manifest.value."""
    yield from module_contract.check_manifest(payload.manifest)
    entrypoint, adapter = payload.manifest.get("entrypoint"), _get_adapter_file(payload)
    tree = _parse_files(payload).get(adapter)
    if isinstance(entrypoint, str) and tree is not None:
        classes = [
            node.name
            for node in module_contract.find_registered_classes(build_scoped_tree(tree), policy.adapter)
        ]
        bound = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        if entrypoint not in bound | {module_name(adapter)}:
            found = module_contract.build_entrypoint_finding(entrypoint, [*classes, module_name(adapter)])
            node = next((one for one in tree.body if getattr(one, "name", None) in classes), None)
            yield replace(found, file=adapter, line=node.lineno) if node is not None else found


def _check_paths(payload: ModulePayload, policy: ExecutionPolicy) -> Iterator[Finding]:
    """Check file paths: ``../adapter.py`` -> paths.not_inside."""
    yield from module_files.check_files(payload.files, policy.adapter.modules)
    for name, text in payload.files.items():
        if name.endswith(".json") and (invalid := module_mistakes.check_json(name, text)) is not None:
            yield invalid


def _plan_units(
    payload: ModulePayload, policy: ExecutionPolicy, modules: Mapping[str, object], limits: Limits
) -> Iterator[Unit]:
    adapter, contract = _get_adapter_file(payload), policy.adapter
    covered = {} if policy.quality.is_off else {"covered": adapter}
    yield Unit(
        name=CONTRACT_UNIT,
        program=Program.PYTHON,
        arguments={
            "source": adapter_unit.build_probe(module_name(adapter), contract),
            "filename": adapter_unit.FILENAME,
            "namespace": {"methods": list(contract.methods)},
            "results": [adapter_unit.RESULT],
            "builtins": "full",
            "modules": modules,
        },
        deadline_s=limits.unit_timeout_s,
    )
    for file in list_test_files(payload.files):
        arguments = {"modules": modules, "test": file, **covered}
        yield Unit(name=file, program=Program.PYTEST, arguments=arguments, deadline_s=limits.unit_timeout_s)


def _should_try_mutants(policy: ExecutionPolicy) -> bool:
    """Return whether to try mutants. Never under an allowlist, as tests can have external effects."""
    off = policy.quality.level("quality.mutants") is RuleLevel.OFF
    return policy.quality.mutants > 0 and not off and policy.network.mode is NetworkMode.BLOCKED


def _match_test_units(payload: ModulePayload, result: RunResult) -> dict[str, UnitResult]:
    """Return the unit results by test file."""
    found = (
        (file, _find_unit(result, place, file))
        for place, file in enumerate(list_test_files(payload.files), 1)
    )
    return {file: unit for file, unit in found if unit is not None}


def _find_unit(result: RunResult, place: int, name: str) -> UnitResult | None:
    """Return the unit at an index, or None if the unit has a different name."""
    unit = result.units[place] if place < len(result.units) else None
    return unit if unit is not None and unit.name == name[:256] else None


def _omit_repeated_failures(contract: Iterable[Finding], others: Iterable[Finding]) -> Iterator[Finding]:
    """Omit failed imports of tests if the findings about the adapter already report the cause."""
    told = {(f.file, f.line, f.snippet) for f in contract if f.is_error and f.line is not None}
    for finding in others:
        repeated = (
            finding.rule == "tests.import_failed" and (finding.file, finding.line, finding.snippet) in told
        )
        if not repeated:
            yield finding


def _iter_parent_packages(module: str) -> Iterator[str]:
    """Yield a dotted name, followed by its parent packages."""
    while module:
        yield module
        module = module.rpartition(".")[0]


validator = ModuleKind()
