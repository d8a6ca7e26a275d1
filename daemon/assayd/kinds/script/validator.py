"""Scripts: any program of the image, validated when it ends well and leaves what it declares.

`code` is Python and runs as a script does; `argv` starts a program of the image, with `files` laid out for
either. No rules for the source but that Python compiles; what the policy records is recorded. Source:
Source: docs/kinds/script.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from glob import escape
from types import MappingProxyType

from assayd.errors import RequestError
from assayd.findings import exec_unit, python_failures
from assayd.findings import expected as expected_results
from assayd.findings import runs as run_findings
from assayd.findings.allowances import allowances
from assayd.findings.briefing import code_briefing, with_code
from assayd.findings.expected import TEXTS_COMPARED, cases_told, told_comparison
from assayd.findings.python_failures import IMAGE_MODULES
from assayd.findings.repair_context import context_of, without_layout
from assayd.findings.retry_context import retry_context
from assayd.kinds.script import generating
from assayd.kinds.script.from_files import from_files
from assayd.kinds.script.generating import ScriptContext
from assayd.kinds.script.judging import judge_runs, runs_of
from assayd.kinds.script.payload import ScriptPayload
from assayd.kinds.script.samples import SAMPLES
from assayd.model.finding import Finding, Rule, Severity
from assayd.model.policy import ExecutionPolicy, ImportMode
from assayd.model.report import Judgement
from assayd.model.run import Limits, Program, RunResult, RunSpec, Unit
from assayd.model.submission import Sample
from assayd.ports.generatable import Briefing, Proposal
from assayd.ports.repairable import Passage, RepairContext, Surrounding
from assayd.ports.validator import Cap, FileOptions, OnFail, Stage, Validator, image_of
from assayd.static import work_paths
from assayd.static.python import inferred_names as python_meant
from assayd.static.python import model_answer
from assayd.static.python import normal_form as python_normal
from assayd.static.python import source as python_source
from assayd.static.python.inferred_names import check_meant
from assayd.static.work_files import content_of
from assayd.static.work_paths import check_paths

FILENAME = "script.py"
_ENVIRONMENT = {"HOME": "/sandbox", "TMPDIR": "/sandbox"}
"""What programs look for, beside PATH and LANG of the image: /sandbox is all that can be written to."""

_REMINDERS = (
    "Write one file of Python; it ends well when it ends by itself with exit code 0.",
    "The directory that it starts in is the only place to write; end every process that is started.",
)

_RULES = (
    *model_answer.RULES,
    *python_source.RULES,
    *python_meant.RULES,
    *work_paths.RULES,
    *run_findings.CAUSE_RULES,
    *run_findings.POLICY_RULES,
    run_findings.LIMIT_RULE,
    run_findings.NOT_COMPILED_RULE,
    *python_failures.RULES,
    exec_unit.NOT_EXECUTED_RULE,
    Rule(
        id="collect.missing",
        title="A declared output that is not there",
        help="Bad: collect ['out.csv'], and nothing writes it.",
    ),
    Rule(id="collect.cut", title="A declared output that is too large to be kept whole"),
    *expected_results.RULES,
)


class Script:
    """The kind `script`."""

    kind: str = "script"
    payload: type[ScriptPayload] = ScriptPayload
    bounded: Mapping[str, Cap] = MappingProxyType(
        {"code": Cap.SOURCE, "files.*": Cap.SOURCE, "cases": Cap.INPUTS}
    )
    default_policy: str = "script"
    image: str = "python"
    any_image: bool = True
    rules: Sequence[Rule] = _RULES
    runtime_stages: Sequence[str] = ("sandbox",)
    samples: Sequence[Sample] = SAMPLES
    generation_context: type[ScriptContext] = ScriptContext
    forms: frozenset[str] = frozenset({"code"})

    @property
    def stages(self) -> Sequence[Stage[ScriptPayload]]:
        """The one static stage."""
        return (Stage(name="syntax", check=_check_syntax, on_fail=OnFail.STOP),)

    def from_files(self, files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
        """Build a payload: one file of Python, or files and ``--option argv='program argument…'``."""
        return from_files(files, options)

    def narrow(self, payload: ScriptPayload, policy: ExecutionPolicy) -> ExecutionPolicy:
        """Refuse a policy that judges imports for a program in which nothing can judge them.

        Raises: RequestError ``policy.unenforceable``.
        """
        if payload.argv and policy.imports.mode is ImportMode.ENFORCE:
            message = (
                f"policy {policy.name!r} judges imports, which nothing can do inside another program; "
                "send the script as code, or use a policy that only records them"
            )
            raise RequestError("policy.unenforceable", message, field="policy")
        return policy

    def prepare(self, payload: ScriptPayload) -> ScriptPayload:
        """Return the payload with the code that an answer means, and nothing else of it."""
        code = payload.code
        return payload if code is None else payload.model_copy(update={"code": model_answer.clean(code).text})

    def plan(self, payload: ScriptPayload, policy: ExecutionPolicy, limits: Limits) -> RunSpec:
        """Plan the one program, once for every case."""
        return RunSpec(
            image=image_of(self, policy),
            limits=limits,
            units=tuple(_unit(name, read, payload, policy, limits) for name, read, _ in runs_of(payload)),
            network=policy.network,
            imports=policy.imports,
            files={path: content_of(given) for path, given in payload.files.items()},
            collect=tuple(map(escape, payload.collect)),
            allow_exec=policy.imports.mode is ImportMode.OBSERVE,
        )

    def judge(self, payload: ScriptPayload, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Judge how the program ended, and then what it left."""
        return judge_runs(payload, result)

    def retry_context(
        self, findings: Sequence[Finding], stage: str, policy: ExecutionPolicy | None = None
    ) -> str:
        """Word a failed stage for a model."""
        headline = {"syntax": "The script cannot be run:", "sandbox": "The script ran and failed:"}
        headline_of = headline.get(stage, "It failed:")
        return retry_context(findings, headline=headline_of, reminders=_instructions(policy))

    def context(
        self, payload: ScriptPayload, report: Mapping[str, object], policy: ExecutionPolicy | None = None
    ) -> RepairContext:
        """Ask for the code again, or for the file that is run, with what the report says."""
        name, text = _main_text(payload)
        python = payload.code is not None or name.endswith(".py")
        said = _instructions(policy) if python else tuple(allowances(policy))
        around = []
        if payload.collect:
            wanted = "\n".join(payload.collect)
            around.append(Surrounding(title="files that must be there at the end", text=wanted))
        if payload.cases:
            told = cases_told((case, case.stdin, case.expected) for case in payload.cases)
            around.append(Surrounding(title="cases that have to pass: standard input -> output", text=told))
        return context_of(
            Passage(name=name, language="python" if python else "text", text=text),
            report,
            instructions=(*said, *told_comparison(payload.cases, TEXTS_COMPARED)),
            runtime_stages=self.runtime_stages,
            surroundings=around,
        )

    def patch(self, payload: ScriptPayload, passage: str, code: str) -> Mapping[str, object]:
        """Put another text in the place of the code, or of that file."""
        document = payload.model_dump(mode="json", exclude_unset=True)
        if payload.code is not None:
            return {**document, "code": code}
        return {**document, "files": {**document.get("files", {}), passage: code}}

    def normal_form(self, payload: ScriptPayload) -> bytes:
        """Return the syntax tree of Python, else the words of the text."""
        name, text = _main_text(payload)
        python = payload.code is not None or name.endswith(".py")
        return python_normal.normal_form(text) if python else without_layout(text, "#")

    def brief(self, context: ScriptContext, policy: ExecutionPolicy) -> Briefing:
        """Return what a model is told before it writes."""
        rules = (*_instructions(policy), *told_comparison(context.cases, TEXTS_COMPARED))
        return code_briefing(
            generating.TASK,
            rules=rules,
            example=generating.EXAMPLE,
            around=generating.around(context),
        )

    def base(self, context: ScriptContext) -> Mapping[str, object]:
        """Return the payload without the code."""
        return generating.base_of(context)

    def answered(self, base: Mapping[str, object], proposal: Proposal) -> Mapping[str, object]:
        """Return a payload with the text that was proposed."""
        return with_code(base, proposal)


def _instructions(policy: ExecutionPolicy | None) -> tuple[str, ...]:
    return (*_REMINDERS, *allowances(policy, offer="Python's standard library"))


def _main_text(submitted: ScriptPayload) -> tuple[str, str]:
    """Return the text that a repair is about: the code, else the file that is run, else the first one."""
    if submitted.code is not None:
        return "code", model_answer.clean(submitted.code).text
    named = [name for name in submitted.files if name in submitted.argv]
    name = (named or sorted(submitted.files) or [""])[0]
    content = content_of(submitted.files[name]) if name else b""
    return name, content.decode("utf-8", "replace")


def _check_syntax(payload: ScriptPayload, policy: ExecutionPolicy) -> Sequence[Finding]:
    """``for n in range(3)`` -> syntax.missing_colon; ``collect: ["../out"]`` -> path.invalid."""
    paths = (
        *check_paths(payload.files, field="files"),
        *check_paths(payload.collect, field="collect"),
    )
    if payload.code is None:
        return paths
    answer = model_answer.clean(payload.code)
    source = python_source.parse(answer.text)
    meant = check_meant(source, policy.imports, offered=IMAGE_MODULES, severity=Severity.WARNING)
    return (*answer.findings, *source.findings, *meant, *paths)


def _unit(name: str, stdin: str, submitted: ScriptPayload, policy: ExecutionPolicy, limits: Limits) -> Unit:
    """Plan the program. Where imports are judged it must report, since its report holds what was refused."""
    if submitted.code is None:
        program: Program = Program.EXEC
        arguments: dict[str, object] = {"argv": list(submitted.argv), "env": _ENVIRONMENT}
    else:
        program = Program.PYTHON
        text = {"source": submitted.code, "filename": FILENAME, "builtins": "full", "as_script": True}
        arguments = {**text, "namespace": {}, "results": []}
    return Unit(
        name=name,
        program=program,
        arguments=arguments,
        deadline_s=limits.unit_timeout_s,
        stdin=stdin.encode("utf-8"),
        # a program may read its own text: open(__file__), inspect.getsource
        files=_own_text(submitted),
        status_decides=policy.imports.mode is ImportMode.OBSERVE,
    )


def _own_text(submitted: ScriptPayload) -> Mapping[str, bytes]:
    """Return the program as a file, unless a submitted one has that name."""
    if submitted.code is None or FILENAME in submitted.files:
        return {}
    return {FILENAME: submitted.code.encode("utf-8")}


validator: Validator[ScriptPayload] = Script()
