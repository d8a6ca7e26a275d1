"""Scripts: any program of the image, validated when it ends well and leaves what it declares.

`code` is Python and runs as a script does; `argv` starts a program of the image, with `files` laid out for
either. No rules for the source but that Python compiles; what the policy records is recorded. Source:
CONTRACT section 3.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from glob import escape
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from assayd.errors import RequestError
from assayd.findings import exec_unit, python_failures
from assayd.findings import runs as run_findings
from assayd.findings.call_unit import Tried
from assayd.findings.exec_unit import judge_exec
from assayd.findings.python_failures import IMAGE_MODULES, Surroundings
from assayd.findings.python_unit import judge_end, never_started
from assayd.findings.repair_context import context_of, without_layout
from assayd.findings.retry_context import retry_context
from assayd.kinds.script.command_line import command_line
from assayd.model.finding import Finding, Layer, Rule, has_errors
from assayd.model.policy import ExecutionPolicy, ImportMode
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import Limits, Program, RunResult, RunSpec, Unit, UnitResult
from assayd.model.submission import Sample
from assayd.model.text_limits import shorten
from assayd.ports.repairable import Passage, RepairContext, Surrounding
from assayd.ports.validator import Cap, FileOptions, OnFail, Stage, Validator
from assayd.static import work_paths
from assayd.static.python import inferred_names as python_meant
from assayd.static.python import model_answer
from assayd.static.python import normal_form as python_normal
from assayd.static.python import source as python_source
from assayd.static.python.inferred_names import check_meant
from assayd.static.submitted_file import only_text
from assayd.static.work_files import FileContent, content_of, payload_of
from assayd.static.work_paths import check_paths

FILENAME = "script.py"
UNIT = "script"

_MOST_ARGUMENTS = 256
_MOST_ARGUMENT_BYTES = 65_536
_OFFER = "It has python3.11, and no shell."
_OPTIONS = frozenset(option.name for option in command_line.options)

_REMINDERS = (
    "Write one file of Python; it ends well when it ends by itself with exit code 0.",
    "The image has Python's standard library; there is no network.",
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
)


def _argument(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character")
    return text


class ScriptPayload(BaseModel):
    """`code` is Python, or an answer that holds it; else `argv` is a program of the image with its arguments.

    `files` are laid out in the directory that it starts in; each path of `collect` must be there at the end.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    code: str | None = None
    files: Mapping[str, FileContent] = Field(default_factory=dict)
    argv: Annotated[
        tuple[Annotated[str, AfterValidator(_argument)], ...], Field(max_length=_MOST_ARGUMENTS)
    ] = ()
    stdin: str = ""
    collect: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_program(self) -> ScriptPayload:
        if (self.code is None) == (not self.argv):
            raise ValueError("give either code, or argv (with files), and not both")
        if self.argv and not self.argv[0]:
            raise ValueError("argv starts with the name of a program")
        if sum(len(argument.encode()) for argument in self.argv) > _MOST_ARGUMENT_BYTES:
            raise ValueError(f"argv has more than {_MOST_ARGUMENT_BYTES} bytes; use stdin or a file")
        return self


_WRITES = """
import csv
import sys

rows = [line.split() for line in sys.stdin]
with open("out.csv", "w", newline="") as file:
    csv.writer(file).writerows(rows)
print(len(rows), "rows")
"""


def _sample(name: str, *rules: str, verdict: str = "failed", runs: bool = True, **payload: object) -> Sample:
    return Sample(name=name, payload=payload, verdict=verdict, rules=frozenset(rules), needs_container=runs)


_SAMPLES = (
    _sample("good", code=_WRITES, stdin="a 1\nb 2\n", collect=["out.csv"], verdict="validated"),
    _sample(
        "good_files",
        files={"main.py": "import helper\nhelper.greet()\n", "helper.py": "def greet(): print('hello')\n"},
        argv=["python3.11", "main.py"],
        verdict="validated",
    ),
    _sample("exits", code="import sys\nsys.exit(0)\n", verdict="validated"),
    _sample("syntax", "syntax.missing_colon", code="for n in range(3)\n    print(n)\n", runs=False),
    _sample("path", "path.invalid", code="print(1)\n", collect=["../out.csv"], runs=False),
    _sample("raised", "sandbox.raised", code="print(1 / 0)\n"),
    _sample("undefined", "sandbox.name_undefined", code="print(json.dumps({}))\n"),
    _sample("no_module", "sandbox.module_missing", code="import pandas\n"),
    _sample("status", "sandbox.exited_nonzero", code="raise SystemExit(3)\n"),
    _sample("endless", "sandbox.timeout", code="while True: pass\n"),
    _sample(
        "leaves",
        "sandbox.left_processes",
        code="import os, signal\nif os.fork() == 0:\n    os.setsid()\n    signal.pause()\n",
    ),
    _sample("no_program", "sandbox.not_executed", argv=["no-such-program"]),
    _sample("not_written", "collect.missing", code="print('done')\n", collect=["out.csv"]),
)


class Script:
    """The kind `script`."""

    kind: str = "script"
    payload: type[ScriptPayload] = ScriptPayload
    bounded: Mapping[str, Cap] = MappingProxyType({"code": Cap.SOURCE, "files.*": Cap.SOURCE})
    default_policy: str = "script"
    image: str = "python"
    rules: Sequence[Rule] = _RULES
    runtime_stages: Sequence[str] = ("sandbox",)
    samples: Sequence[Sample] = _SAMPLES

    @property
    def stages(self) -> Sequence[Stage[ScriptPayload]]:
        """The one static stage."""
        return (Stage(name="syntax", check=_check_syntax, on_fail=OnFail.STOP),)

    def from_files(self, files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
        """Build a payload: one file of Python, or files and ``--option argv='program argument…'``."""
        if options.input is not None or options.sample_paths or options.extra.keys() - _OPTIONS:
            known = ", ".join(sorted(_OPTIONS))
            raise RequestError("request.options", f"a script takes files and --option of {known}")
        payload = _program(files, options.extra.get("argv"))
        if "stdin" in options.extra:
            payload["stdin"] = options.extra["stdin"]
        if "collect" in options.extra:
            payload["collect"] = options.extra["collect"].split(",")
        return payload

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
        """Plan the one program."""
        return RunSpec(
            image=self.image,
            limits=limits,
            units=(_unit(payload, policy, limits),),
            network=policy.network,
            imports=policy.imports,
            files={path: content_of(given) for path, given in payload.files.items()},
            collect=tuple(map(escape, payload.collect)),
            allow_exec=policy.imports.mode is ImportMode.OBSERVE,
        )

    def judge(self, payload: ScriptPayload, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Judge how the program ended, and then what it left."""
        unit = result.units[0] if result.units else None
        tried = _judge_unit(unit, payload)
        if tried.case.status is CaseStatus.PASSED and not has_errors(tried.findings):
            missing = tuple(_judge_outputs(payload.collect, result))
            if missing:
                case = replace(tried.case, status=CaseStatus.FAILED, message=missing[0].message)
                tried = Tried(case=case, findings=(*tried.findings, *missing))
        return Judgement(stage_findings={"sandbox": tried.findings}, cases=(tried.case,))

    def retry_context(self, findings: Sequence[Finding], stage: str) -> str:
        """Word a failed stage for a model."""
        headline = {"syntax": "The script cannot be run:", "sandbox": "The script ran and failed:"}
        return retry_context(findings, headline=headline.get(stage, "It failed:"), reminders=_REMINDERS)

    def context(self, payload: ScriptPayload, report: Mapping[str, object]) -> RepairContext:
        """Ask for the code again, or for the file that is run, with what the report says."""
        name, text = _main_text(payload)
        python = payload.code is not None or name.endswith(".py")
        wanted = Surrounding(title="files that must be there at the end", text="\n".join(payload.collect))
        return context_of(
            Passage(name=name, language="python" if python else "text", text=text),
            report,
            instructions=_REMINDERS if python else (),
            runtime_stages=self.runtime_stages,
            surroundings=(wanted,) if payload.collect else (),
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


def _main_text(submitted: ScriptPayload) -> tuple[str, str]:
    """Return the text that a repair is about: the code, else the file that is run, else the first one."""
    if submitted.code is not None:
        return "code", model_answer.clean(submitted.code).text
    named = [name for name in submitted.files if name in submitted.argv]
    name = (named or sorted(submitted.files) or [""])[0]
    content = content_of(submitted.files[name]) if name else b""
    return name, content.decode("utf-8", "replace")


def _program(files: Mapping[str, bytes], argv: str | None) -> dict[str, object]:
    """Say which program a command line means."""
    if argv is not None:
        try:
            return {
                "argv": shlex.split(argv),
                "files": {name: payload_of(c) for name, c in files.items()},
            }
        except ValueError as problem:
            raise RequestError("request.options", f"--option argv: {problem}", field="payload.argv") from None
    return {"code": only_text(files, what="a script without --option argv")}


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
    meant = check_meant(source, policy.imports, offered=IMAGE_MODULES)
    return (*answer.findings, *source.findings, *meant, *paths)


def _unit(submitted: ScriptPayload, policy: ExecutionPolicy, limits: Limits) -> Unit:
    """Plan the program. Where imports are judged it must report, since its report holds what was refused."""
    if submitted.code is None:
        program: Program = Program.EXEC
        arguments: dict[str, object] = {"argv": list(submitted.argv), "env": {}}
    else:
        program = Program.PYTHON
        text = {"source": submitted.code, "filename": FILENAME, "builtins": "full", "as_script": True}
        arguments = {**text, "namespace": {}, "results": []}
    return Unit(
        name=UNIT,
        program=program,
        arguments=arguments,
        deadline_s=limits.unit_timeout_s,
        stdin=submitted.stdin.encode("utf-8"),
        status_decides=policy.imports.mode is ImportMode.OBSERVE,
    )


def _judge_unit(unit: UnitResult | None, submitted: ScriptPayload) -> Tried:
    if submitted.code is None:
        return judge_exec(UNIT, unit, program=submitted.argv[0], offer=_OFFER)
    if unit is None:
        return never_started(UNIT)
    return judge_end(unit, Surroundings(text=submitted.code), what="The script")


def _judge_outputs(wanted: Sequence[str], result: RunResult) -> Iterator[Finding]:
    """Look for every declared output; what the runner left behind is told in its own words."""
    there = {output.name: output for output in result.outputs}
    for path in wanted:
        if path not in there:
            left = next((why for why in result.outputs_dropped if why.startswith(ascii(path))), None)
            message = f"The declared output {shorten(left or f'{path!a} is not there', 300)}."
            remedy = "Write a regular file of that name below the directory that the script starts in."
            yield _output_finding("collect.missing", message, remedy)
        elif there[path].truncated:
            message = f"The declared output {path!a} is too large; only a part was kept."
            yield _output_finding("collect.cut", message, "Write less, or fewer files.")


def _output_finding(rule: str, message: str, suggestion: str) -> Finding:
    return Finding(rule=rule, category="outputs", message=message, layer=Layer.RUNTIME, suggestion=suggestion)


validator: Validator[ScriptPayload] = Script()
