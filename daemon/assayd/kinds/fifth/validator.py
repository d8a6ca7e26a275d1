"""Fifth, a Forth dialect: declarative checks of generated programs, and a run in gforth on demand.

Static: forbidden, required, structure, vocabulary; all of them run, so that all findings come together. With
`execute`, the program is loaded in a sandbox. Source: seed 003.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import PurePath
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints

from assayd.errors import RequestError
from assayd.findings import exec_unit
from assayd.findings import runs as run_findings
from assayd.findings.exec_unit import judge_exec
from assayd.findings.repair_context import context_of, without_layout
from assayd.findings.retry_context import retry_context
from assayd.kinds.fifth import advice
from assayd.kinds.fifth.analysis import Analysis, analyse, errors_as_warnings, program_of
from assayd.kinds.fifth.language import language
from assayd.kinds.fifth.run import PROGRAM_FILE, error_finding, notes
from assayd.model.finding import Finding, Rule
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import CaseStatus, Judgement, Rating
from assayd.model.run import Cause, Limits, Program, RunResult, RunSpec, Unit
from assayd.model.submission import Sample
from assayd.ports.repairable import Passage, RepairContext, Surrounding
from assayd.ports.validator import STDIN, FileOptions, OnFail, Stage

SUFFIXES = frozenset({".fs", ".fth", ".forth", ".4th", ".f", ".md", ".txt"})
"""A file on the command line is a program, or an answer as the model gave it."""
MOST_FILES = 100

_OPTIONS = frozenset({"task_type", "model_source", "strict_mode", "libraries", "execute"})
_SWITCHES = {"true": True, "false": False}
_FOLDER = "assayd"
_PRELUDE_FILE = f"{_FOLDER}/prelude.fs"
_LIBRARIES_FILE = f"{_FOLDER}/libraries.fs"
_GFORTH = "/usr/bin/gforth"
_LIBRARY_HOME = "/usr/share/fifth"
_UNIT = "program"
_ALWAYS = "structure.unbalanced"
"""The rule of `structure` whose certain findings are errors in every mode."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Path = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$", max_length=200
    ),
]
Label = Annotated[str, StringConstraints(max_length=200)]


class FifthPayload(BaseModel):
    """`code` is a program, or an answer that has it in fenced blocks; `files` are what it may load.

    `libraries` are loaded before it. `task_type` and `model_source` steer what another try is told, and
    nothing else.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str
    task_type: Label | None = None
    model_source: Label | None = None
    strict_mode: StrictBool = True
    libraries: Annotated[tuple[Name, ...], Field(max_length=50)] = ()
    files: Annotated[dict[Path, str], Field(max_length=MOST_FILES)] = {}
    execute: StrictBool = False


_GOOD = ': double ( n -- n*2 )\n  2 * ;\n\n: show ( n -- )\n  dup . ." doubled is " double . cr ;\n\n5 show\n'
_PAGE = """require lib/core.fs

: row ( row$ -- )
  <tr> 2dup 0 sql-field td. 2drop 1 sql-field td. 2drop </tr> ;

: page ( title$ -- )
  2dup html-head html-body h1.
  s" app.db" s" SELECT name, kind FROM things" ['] row sql-each
  html-end ;

html>stdout s" Things" page
"""


def _sample(
    name: str, code: str, *rules: str, verdict: str = "failed", runs: bool = False, **others: object
) -> Sample:
    payload = {"code": code, "execute": runs, **others}
    return Sample(name=name, payload=payload, verdict=verdict, rules=frozenset(rules), needs_container=runs)


_SAMPLES = (
    _sample("good", _GOOD, verdict="validated"),
    _sample("page", _PAGE, verdict="validated"),
    _sample("answer", f"Here:\n```forth\n{_GOOD}```\n", "forbidden.answer_blocks", verdict="validated"),
    _sample(
        "constant", ': db s" app.db" ;\ndb type\n', "required.stack_comment_constant", verdict="validated"
    ),
    _sample("loop", ": f ( -- ) 3 0 do i loop ;\n", "structure.loop", verdict="validated"),
    _sample("branches", ": f ( n -- n ) dup if 1 then ;\n", "structure.branches"),
    _sample("control", ": f ( n -- ) if drop ;\n", "structure.unbalanced", strict_mode=False),
    _sample("lenient", ": f 2 * ;\n", "required.stack_comment", verdict="validated", strict_mode=False),
    _sample("concatenation", ': f ( -- addr u ) s" a" s" b" s+ ;\n', "forbidden.concatenation"),
    _sample("include", "include str.fs\n", "forbidden.include"),
    _sample(
        "raw", ": f ( row$ -- ) 0 sql-field raw 2drop ;\n", "forbidden.raw_user_data", libraries=["core"]
    ),
    _sample("comment", ": double 2 * ;\n", "required.stack_comment"),
    _sample("unknown", ": f ( addr u -- ) string-split ;\n", "vocabulary.unknown_word"),
    _sample("library", ': f ( -- ) s" a" text ;\n', "vocabulary.library_not_loaded"),
    _sample("gforth", ": f ( a b -- flag ) <= ;\n", "vocabulary.gforth_word"),
    _sample("runs", _GOOD, verdict="validated", runs=True),
    _sample(
        "unavailable", "require lib/str.fs\n", "fifth.library_unavailable", verdict="validated", runs=True
    ),
    _sample("division", "7 0 / .\n", "fifth.division_by_zero", runs=True),
    _sample("endless", ": f ( -- ) begin again ;\nf\n", "sandbox.timeout", runs=True),
)


class Fifth:
    """The kind `fifth`."""

    kind: str = "fifth"
    payload: type[BaseModel] = FifthPayload
    default_policy: str = "fifth"
    image: str = "forth"
    runtime_stages: Sequence[str] = ("sandbox",)
    samples: Sequence[Sample] = _SAMPLES

    @cached_property
    def rules(self) -> Sequence[Rule]:
        """The rules of the data files, and those of a run."""
        return (
            *language().rules.listed(),
            *run_findings.CAUSE_RULES,
            run_findings.LIMIT_RULE,
            exec_unit.NOT_EXECUTED_RULE,
        )

    @property
    def stages(self) -> Sequence[Stage]:
        """The static stages, in order; all of them run."""
        return (
            Stage(name="forbidden", check=_check_forbidden, on_fail=OnFail.CONTINUE),
            Stage(name="required", check=_check_required, on_fail=OnFail.CONTINUE),
            Stage(name="structure", check=_check_structure, on_fail=OnFail.CONTINUE),
            Stage(name="vocabulary", check=_check_vocabulary, on_fail=OnFail.CONTINUE),
        )

    def from_files(self, files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
        """Build a payload: the first file is the program, the others are what it may load."""
        if not files:
            raise RequestError("request.files", "a Fifth program is at least one file", field="files")
        if options.input is not None or options.sample_paths:
            raise RequestError("request.options", "a Fifth program takes neither --input nor --sample-path")
        texts = {name: _decoded(name, content) for name, content in files.items()}
        first = next(iter(texts))
        if first != STDIN and PurePath(first).suffix.lower() not in SUFFIXES:
            message = f"{first}: expected one of {', '.join(sorted(SUFFIXES))}"
            raise RequestError("request.files", message, field=first)
        payload: dict[str, object] = {"code": texts.pop(first)}
        if texts:
            payload["files"] = texts
        return payload | _read_options(options.extra)

    def prepare(self, payload: BaseModel) -> BaseModel:
        """Return the payload with the program that the answer means, and nothing else of it."""
        return payload.model_copy(update={"code": program_of(_fifth(payload).code)})

    def plan(self, payload: BaseModel, policy: ExecutionPolicy, limits: Limits) -> RunSpec | None:
        """Plan one run in gforth, where it is asked for."""
        submitted = _fifth(payload)
        if not submitted.execute:
            return None
        argv = [_GFORTH, _PRELUDE_FILE, _LIBRARIES_FILE, PROGRAM_FILE, "-e", "bye"]
        return RunSpec(
            image=self.image,
            limits=limits,
            units=(
                Unit(
                    name=_UNIT,
                    program=Program.EXEC,
                    arguments={"argv": argv, "env": {"FIFTH_HOME": _LIBRARY_HOME}},
                    deadline_s=limits.unit_timeout_s,
                ),
            ),
            network=policy.network,
            imports=policy.imports,
            files=_laid(submitted),
            allow_exec=True,
        )

    def judge(self, payload: BaseModel, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Judge the run by how it ended; what gforth says only words a bad end."""
        submitted = _fifth(payload)
        unit = next((unit for unit in result.units[:1] if unit.name == _UNIT), None)
        tried = judge_exec(_UNIT, unit, program=_GFORTH)
        if unit is None:
            return Judgement(stage_findings={"sandbox": tried.findings}, cases=(tried.case,))
        stderr = unit.stderr.text()
        if tried.case.status is CaseStatus.PASSED:
            return Judgement(
                stage_findings={"sandbox": tuple(notes(stderr, language()))}, cases=(tried.case,)
            )
        said = error_finding(stderr, submitted.code, language())
        if said is None or unit.outcome.cause is not Cause.EXITED_NONZERO or unit.results:
            return Judgement(stage_findings={"sandbox": tried.findings}, cases=(tried.case,))
        case = replace(tried.case, error_type=said.rule, message=said.message, line=said.line)
        return Judgement(stage_findings={"sandbox": (said,)}, cases=(case,))

    def retry_context(
        self, findings: Sequence[Finding], stage: str, policy: ExecutionPolicy | None = None
    ) -> str:
        """Word all that was found for a model that tries again."""
        stressed = advice.feedback(findings, language())["add_emphasis"]
        reminders = [str(text) for text in stressed] if isinstance(stressed, list) else []
        ran = stage in self.runtime_stages
        headline = "The program failed when it ran:" if ran else "The program is not valid Fifth:"
        return retry_context(findings, headline=headline, reminders=reminders)

    def context(self, payload: BaseModel, report: Mapping[str, object]) -> RepairContext:
        """Ask for the program again, with what its report says and the libraries that it has."""
        submitted = _fifth(payload)
        libraries = Surrounding(
            title="libraries that are loaded", text=", ".join(submitted.libraries) or "none"
        )
        return context_of(
            Passage(name="code", language="fifth", text=program_of(submitted.code)),
            report,
            instructions=("Write Fifth: words between blanks, a stack comment in every definition.",),
            runtime_stages=self.runtime_stages,
            surroundings=(libraries,),
        )

    def patch(self, payload: BaseModel, passage: str, code: str) -> Mapping[str, object]:
        """Put another text in the place of the program."""
        return {**payload.model_dump(mode="json", exclude_unset=True), "code": code}

    def normal_form(self, payload: BaseModel) -> bytes:
        """Return the words of the program; case does not count."""
        return without_layout(program_of(_fifth(payload).code).lower(), "\\ ")

    def rate(self, payload: BaseModel, findings: Sequence[Finding]) -> Rating:
        """Return the confidence in a program that passed, and what another try should be told."""
        submitted = _fifth(payload)
        return Rating(
            confidence=advice.confidence(findings),
            feedback=advice.feedback(
                findings,
                language(),
                model_source=submitted.model_source or "",
                task_type=submitted.task_type or "",
                ran=submitted.execute,
            ),
        )


def _fifth(payload: BaseModel) -> FifthPayload:
    if not isinstance(payload, FifthPayload):
        raise TypeError(f"not a Fifth program's payload: {type(payload).__name__}")
    return payload


def _analysis(payload: FifthPayload) -> Analysis:
    return _analyse(payload.code, payload.libraries, tuple(payload.files.items()))


@lru_cache(maxsize=1)
def _analyse(code: str, libraries: tuple[str, ...], files: tuple[tuple[str, str], ...]) -> Analysis:
    """Analyse once for all stages, which run one after the other."""
    return analyse(code, libraries=libraries, files=dict(files))


def _found(payload: BaseModel, stage: str) -> tuple[Finding, ...]:
    return _analysis(_fifth(payload)).findings.get(stage, ())


def _check_forbidden(payload: BaseModel, _: ExecutionPolicy) -> Sequence[Finding]:
    """``s" a" s" b" s+`` -> forbidden.concatenation."""
    return _found(payload, "forbidden")


def _check_required(payload: BaseModel, _: ExecutionPolicy) -> Sequence[Finding]:
    """``: double 2 * ;`` -> required.stack_comment, an error only in strict mode."""
    found = _found(payload, "required")
    return found if _fifth(payload).strict_mode else errors_as_warnings(found)


def _check_structure(payload: BaseModel, _: ExecutionPolicy) -> Sequence[Finding]:
    """``: f ( n -- ) if drop ;`` -> structure.unbalanced; of other errors, warnings unless strict."""
    found = _found(payload, "structure")
    if _fifth(payload).strict_mode:
        return found
    return tuple(each for f in found for each in ((f,) if f.rule == _ALWAYS else errors_as_warnings((f,))))


def _check_vocabulary(payload: BaseModel, _: ExecutionPolicy) -> Sequence[Finding]:
    """``string-split`` -> vocabulary.unknown_word."""
    return _found(payload, "vocabulary")


def _laid(payload: FifthPayload) -> dict[str, bytes]:
    """Return the files of a run: what was submitted, our prelude, and a file that loads the libraries."""
    loads = "".join(f"require {name}.fs\n" for name in payload.libraries)
    ours = {
        _PRELUDE_FILE: language().prelude,
        _LIBRARIES_FILE: loads.encode(),
        PROGRAM_FILE: payload.code.encode(),
    }
    return {name: text.encode() for name, text in payload.files.items()} | ours


def _decoded(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise RequestError("request.files", f"{name} is not UTF-8 text", field=name) from problem


def _read_options(options: Mapping[str, str]) -> dict[str, object]:
    """Read the options of the command line."""
    if unknown := set(options) - _OPTIONS:
        message = f"there is no option {min(unknown)!r}; there are {', '.join(sorted(_OPTIONS))}"
        raise RequestError("request.options", message, field=min(unknown))
    read: dict[str, object] = dict(options)
    for name in ("strict_mode", "execute"):
        if name in options:
            if options[name] not in _SWITCHES:
                raise RequestError("request.options", f"{name} is true or false", field=name)
            read[name] = _SWITCHES[options[name]]
    if "libraries" in options:
        read["libraries"] = [each for each in options["libraries"].split(",") if each]
    return read


validator = Fifth()
