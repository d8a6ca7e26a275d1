"""Validates pipelines: bash and SQL steps that run in order until the first failure.

The static stages check for valid bash and SQL (`parse`), allowed commands (`commands`) and allowed
statements (`sql`). Then all steps run in one container, as separate processes with a shared directory; the
database exists as a file only while a SQL step runs. Source: docs/kinds/pipeline.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from types import MappingProxyType

from assayd.findings import runs as run_findings
from assayd.findings import units
from assayd.findings.retry_context import (
    build_repair_context,
    build_retry_context,
    depends_on_allowances,
    is_unreadable,
    select_headline,
)
from assayd.findings.runs import build_cause_finding
from assayd.findings.source_text import add_correction
from assayd.kind import Cap, FailureAction, Kind, Stage
from assayd.model.finding import Finding, Rule, has_errors
from assayd.model.policy import SQL_RULES, ExecutionPolicy, SqlPolicy
from assayd.model.prompting import Document, PromptContext, Proposal, RepairContext, SourcePart
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import DATABASE_OUTPUT, Cause, Limits, Program, RunResult, RunSpec, Unit
from assayd.model.submission import JsonValue
from assayd.model.text_limits import FINDINGS, shorten_text
from assayd.static import work_paths
from assayd.static.work_paths import check_paths, decode_content, decode_head
from assayd_pipeline import generating, shell, sql, sql_hints
from assayd_pipeline import judging as pipeline_run
from assayd_pipeline import worth as pipeline_worth
from assayd_pipeline.errors import (
    ADVICE,
    ErrorClass,
    find_steps_with_path,
    suggest_similar_path,
    suggest_submitted_files,
)
from assayd_pipeline.errors import ErrorSource as Writer
from assayd_pipeline.facts import (
    DATA_RULES,
    MAX_NAMES,
    MOST_NAME,
    DataFacts,
    Facts,
    iter_input_findings,
    iter_result_findings,
    read_file_facts,
)
from assayd_pipeline.generating import (
    BOTH,
    PipelineContext,
    describe_tables,
    find_faulty_step,
    find_faulty_types,
    instructions,
    iter_fix_context,
    iter_numbered_steps,
    normalize_step,
    usual,
)
from assayd_pipeline.judging import (
    BASH,
    JudgedStep,
    StepText,
    iter_database_findings,
    judge_outputs,
    judge_step,
)
from assayd_pipeline.payload import SAMPLES, Database, PipelinePayload, Step, compute_steps_digest
from assayd_pipeline.shell.parse.resolve import TOOLS
from assayd_pipeline.shell.parse.source import normalize_script
from assayd_pipeline.sql_hints import (
    Refusal,
    add_explanations,
    find_refusals,
    iter_suspicions,
    prepare_tables_before,
)
from assayd_pipeline.worth import (
    MAX_EXPLAINED_ERRORS,
    StepFileFacts,
    iter_idle_findings,
    iter_ignored_errors,
    judge_results,
    read_steps,
)

SANDBOX_FOLDERS = ("data", "tmp", "scripts", "logs")
"""The folders of the sandbox directory. Source: docs/kinds/pipeline.md."""
COLLECTED_PATTERNS = ("**", "!tmp/**", "!scripts/**", "!.database/**", f"!{DATABASE_OUTPUT}")
DATABASE_UNIT = "database"
_ENVIRONMENT = {
    "HOME": "/sandbox",
    "LANG": "C.UTF-8",
    "PATH": TOOLS,
    "TMPDIR": "/sandbox/tmp",
    "TZ": "UTC",
}
WHOLE_IMAGE_PATH = f"{TOOLS}:/usr/bin"
"""PATH of a step under a report-only profile: every program of the image."""
_RESERVED_NAMES = ("scripts", "logs", ".database", DATABASE_OUTPUT)

_RULES = (
    *shell.RULES,
    *sql.RULES,
    *sql_hints.RULES,
    *work_paths.RULES,
    Rule(
        id="path.reserved",
        title="The sandbox uses the path itself",
        help="Bad: scripts/01.sh, logs/x. Good: data/sales.csv.",
    ),
    Rule(id="pipeline.no_steps", title="The pipeline has no steps", help="Bad: steps []."),
    *run_findings.CAUSE_RULES,
    run_findings.LIMIT_RULE,
    units.NOT_EXECUTED_RULE,
    *pipeline_run.RULES,
    pipeline_worth.IGNORED_ERROR,
    *pipeline_worth.RULES,
    *DATA_RULES,
)


_HEADLINE_FOR_STAGE = {
    "parse": "The pipeline can't be read:",
    "commands": "Bash steps do something that isn't allowed:",
    "sql": "SQL steps do something that isn't allowed:",
    "sandbox": "The pipeline ran and failed:",
}
_TYPES_BY_STAGE = {"commands": frozenset({Writer.BASH}), "sql": frozenset({Writer.SQL})}
"""The step types that each stage checks."""
_MAX_EARLIER_FILES = 10
"""Maximum files of earlier steps in a finding about a missing file."""
_PRELOAD = ("csv", "sqlite3")


_OTHER_FORMS = (
    'Or, to change several steps: {"files": {"<number of a step>": "<its whole text>"}, "reason": "…"}.',
    'Or, to add or remove a step, all in order: {"steps": [{"name": "…", "type": "bash or sql", '
    '"content": "…"}], "reason": "…"}.',
)


class PreparedPipeline(PipelinePayload):
    """A submission, the statements in it that SQLite would reject, and the names in its steps.

    `inputs` contains facts about the submitted files.
    """

    refusals: tuple[Refusal, ...] = ()
    read: StepFileFacts = StepFileFacts()
    inputs: Mapping[str, Facts] = MappingProxyType({})


class PipelineKind(Kind[PipelinePayload]):
    """The validator of the kind `pipeline`: bash and SQL steps."""

    name = "pipeline"
    payload = PipelinePayload
    prepared = PreparedPipeline
    bounded = MappingProxyType({"steps.*.content": Cap.SOURCE, "files.*": Cap.SOURCE, "steps": Cap.STEPS})
    checked_parts = ("steps.*.content",)
    helpers = MappingProxyType({"shellcheck": "hints for bash are shorter"})
    recorder = "assayd_pipeline.stored:recorder"
    routes = "assayd_pipeline.routes:router"
    worker = "assayd_pipeline.worker:install_readers"
    default_policy = "pipeline"
    image = "shell"
    rules = _RULES
    samples = SAMPLES
    task = generating.TASK
    example = generating.EXAMPLE
    generation_context = PipelineContext
    forms = frozenset({"steps", "files"})

    @property
    def stages(self) -> Sequence[Stage[PipelinePayload]]:
        """Return the static stages in order, all of which run so that a report contains all findings."""
        return (
            Stage(name="parse", check=_check_syntax_and_paths, on_fail=FailureAction.CONTINUE),
            Stage(name="commands", check=_check_commands, on_fail=FailureAction.CONTINUE),
            Stage(name="sql", check=_check_sql, on_fail=FailureAction.CONTINUE),
        )

    def prepare(self, payload: PipelinePayload) -> PipelinePayload:
        """Return the payload with normalized steps, predicted rejections and facts about files.

        Return the payload itself if there is nothing to add.
        """
        cleaned = tuple(
            step.model_copy(update={"content": normalize_script(step.content)}) for step in payload.steps
        )
        fields = {**dict(payload), "steps": cleaned}
        submitted = PipelinePayload.model_construct(**fields)
        foreseen = find_refusals(submitted)
        heads = {path: decode_head(given) for path, given in payload.files.items()}
        read = read_steps(list(iter_numbered_steps(submitted)), heads)
        inputs = _read_input_facts(payload)
        if not foreseen and not inputs and read == StepFileFacts():
            return payload if cleaned == payload.steps else submitted
        return PreparedPipeline.model_construct(**fields, refusals=foreseen, read=read, inputs=inputs)

    def plan(self, payload: PipelinePayload, policy: ExecutionPolicy, limits: Limits) -> RunSpec:
        """Plan a unit for each step, and before them a unit that creates or checks the database."""
        units = [_build_unit(number, step, policy, limits) for number, step in enumerate(payload.steps, 1)]
        database = payload.database
        if database is not None:
            units.insert(0, _build_database_unit(database, policy.sql, limits))
        return RunSpec(
            image=self.image,
            limits=limits,
            units=tuple(units),
            network=policy.network,
            imports=policy.imports,
            folders=SANDBOX_FOLDERS,
            files={path: decode_content(given) for path, given in payload.files.items()},
            database=b"" if database is None else database.content,
            preload=_PRELOAD,
            needed=_PRELOAD if any(unit.program is Program.SQL for unit in units) else (),
            collect=COLLECTED_PATTERNS,
            changed_only=True,
            stop_on_failure=True,
            allow_exec=True,
        )

    def judge(self, payload: PipelinePayload, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Judge the database, every step, the outputs and the data of a run."""
        units = iter(result.units)
        found: list[Finding] = []
        if payload.database is not None:
            found += iter_database_findings(payload.database, next(units, None))
        steps = list(iter_numbered_steps(payload))
        ran = [(text, next(units, None)) for text in steps]
        judged = [judge_step(text, unit) for text, unit in ran]
        known = getattr(payload, "refusals", ())
        found += [
            add_correction(
                _add_predicted_refusal(_add_similar_path(step.finding, payload, result), number, known),
                text.content,
            )
            for number, (text, step) in enumerate(zip(steps, judged, strict=True), 1)
            if step.finding is not None
        ]
        cases = tuple(step.case for step in judged)
        ignored = (
            finding
            for (text, unit), step in zip(ran, judged, strict=True)
            if unit is not None and step.case.status is CaseStatus.PASSED
            for finding in iter_ignored_errors(text, unit.stderr.text(), policy.commands.ignored_errors)
        )
        found += islice(ignored, MAX_EXPLAINED_ERRORS)
        if not any(finding.is_error for finding in found):
            found += judge_outputs(result)
        if not any(finding.is_error for finding in found) and any(
            case.status is not CaseStatus.PASSED for case in cases
        ):
            cause = Cause.PROTOCOL_VIOLATION if result.outcome.completed else result.outcome.cause
            found.append(build_cause_finding(cause, "The run", "steps have no result"))
        if not has_errors(found):
            read = getattr(payload, "read", StepFileFacts())
            found += judge_results(steps, read, [bool(case.stdout) for case in cases], result)
            for text, step in zip(steps, judged, strict=True):
                found += iter_idle_findings(text, step.idle)
        facts = None
        if not has_errors(found):
            facts = _collect_facts(payload, judged, result)
            found += iter_result_findings(payload.expects, facts)
        shown: JsonValue = None
        if facts is not None:
            shown = {
                "data": facts.model_dump(mode="json"),
                "steps_sha256": compute_steps_digest(payload.steps),
            }
        return Judgement(stage_findings={"sandbox": tuple(found)}, cases=cases, facts=shown)

    def retry_context(
        self, findings: Sequence[Finding], stage: str, policy: ExecutionPolicy | None = None
    ) -> str:
        """Return the retry context with the findings, and instructions for the types of steps."""
        headline = select_headline(_HEADLINE_FOR_STAGE, stage)
        findings = [_remove_step_label(finding) for finding in findings]  # Messages contain the step's name.
        return build_retry_context(
            findings, headline=headline, reminders=instructions(policy, _TYPES_BY_STAGE.get(stage, BOTH))
        )

    def list_requirements(self, policy: ExecutionPolicy | None) -> tuple[str, ...]:
        """Return the instructions for steps, with the operations that the policy allows."""
        return instructions(None if policy is None else usual(policy))

    def context(
        self, payload: PipelinePayload, report: Document, policy: ExecutionPolicy | None = None
    ) -> RepairContext:
        """Return the context of a repair: the failed step, its findings and its surroundings."""
        step, alone = find_faulty_step(payload, report), len(payload.steps) == 1
        rules = instructions(
            None if policy is None else usual(policy),
            find_faulty_types(payload, report),
            alone=alone,
            commands=depends_on_allowances(report, self.runtime_stages),
        )
        unreadable = is_unreadable(report)
        return build_repair_context(
            _to_source_part(step),
            report,
            instructions=() if unreadable else rules,
            runtime_stages=self.runtime_stages,
            surroundings=()
            if unreadable
            else tuple(iter_fix_context(payload, step, str(report.get("retry_context")))),
            title=step.label,
            other_forms=() if unreadable and alone else _OTHER_FORMS[alone:],
            about=partial(_is_about_step, step),
            others=[
                (_to_source_part(other), partial(_is_about_step, other))
                for other in iter_numbered_steps(payload)
                if other.number != step.number
            ],
        )

    def patch(self, payload: PipelinePayload, passage: str, code: str) -> Document:
        """Return the payload with new text for the step with this number."""
        document = payload.model_dump(mode="json", exclude_unset=True)
        steps = [dict(step) for step in document["steps"]]
        steps[int(passage) - 1]["content"] = code
        return {**document, "steps": steps}

    def normalize_text(self, payload: PipelinePayload) -> bytes:
        """Return all steps without layout and comments, so that payloads can be compared."""
        return b"\n;\n".join(normalize_step(step) for step in iter_numbered_steps(payload))

    def around(self, context: PipelineContext) -> Sequence[PromptContext]:
        """Return descriptions of the tables and files in the context of a request."""
        return generating.describe_request_context(context, describe_tables(context.database))

    def answered(self, base: Document, proposal: Proposal) -> Document:
        """Return a payload with the steps of an answer.

        Raises: ValueError, if a step number doesn't exist.
        """
        return generating.add_proposal(base, proposal)


def _add_similar_path(finding: Finding, payload: PipelinePayload, result: RunResult) -> Finding:
    """Add a similar path and the files of earlier steps to a finding about a missing file.

    Return any other finding unchanged.
    """
    if finding.rule != f"step.{ErrorClass.FILE_NOT_FOUND}":
        return finding
    made = [output for output in result.outputs if output.name != DATABASE_OUTPUT]
    others = [*payload.files, *(output.name for output in made), *(step.content for step in payload.steps)]
    told = ", ".join(f"{one.name} ({len(one.content)} bytes)" for one in made[:_MAX_EARLIER_FILES])
    context = f"{finding.context or ''}{'; ' if finding.context else ''}made before: {told}" if told else None
    suggestion = suggest_similar_path(finding.message, others) or finding.suggestion
    if suggestion == ADVICE[ErrorClass.FILE_NOT_FOUND]:
        suggestion = suggest_submitted_files(finding.message, payload.files) or suggestion
    having = find_steps_with_path(finding.message, [step.content for step in payload.steps])
    if len(having) > 1:
        suggestion = f"{suggestion or ''} Steps with this path: {', '.join(map(str, having))}.".lstrip()
    return replace(
        finding,
        suggestion=suggestion,
        context=context or finding.context,
    )


def _add_predicted_refusal(finding: Finding, number: int, known: Sequence[Refusal]) -> Finding:
    """Add the correct form for SQLite to a finding, if its failure was predicted before the run."""
    one = next((one for one in known if one.step == number and one.matches_error(finding.message)), None)
    if one is None:
        return finding
    message = f"{finding.message.partition(': statement')[0]}: {one.message}"
    return replace(
        finding,
        message=message if one.message else finding.message,
        suggestion=one.suggestion,
        edit=one.edit,
        line=one.line,
        column=None,
        snippet=None,
    )


def _remove_step_label(finding: Finding) -> Finding:
    """Return a finding without its file, and without the step's name at the start of its context."""
    label = finding.message.partition(": ")[0]
    context = (finding.context or "").removeprefix(label).removeprefix("; ")
    return replace(finding, file=None, context=context or None)


def _to_source_part(step: StepText) -> SourcePart:
    return SourcePart(name=str(step.number), language=step.program.value, text=step.content)


def _is_about_step(step: StepText, hint: Mapping[str, object]) -> bool:
    """Return whether a hint is about a step, because its message begins with the step's name."""
    return str(hint.get("message")).startswith(f"{step.label}:")


def _check_syntax_and_paths(payload: PipelinePayload, policy: ExecutionPolicy) -> Sequence[Finding]:
    """Check syntax and paths: ``if true; then`` -> shell.syntax; ``SELCT 1`` -> sql.syntax."""
    if not payload.steps:
        suggestion = "Submit steps, or the id of a pipeline that has steps."
        finding = Finding(
            rule="pipeline.no_steps",
            category="syntax",
            message="The pipeline has no steps.",
            suggestion=suggestion,
        )
        return [finding]

    def check(step: StepText) -> Sequence[Finding]:
        if step.program is Writer.BASH:
            return shell.parse_script(step.content)
        found = sql.check_sql(step.content, policy.sql).syntax
        return _explain_sql_findings(payload, step, found, policy)

    paths = [*check_paths(payload.files, field="payload.files"), *_check_reserved_paths(payload.files)]
    if payload.expects is not None:
        paths += iter_input_findings(payload.expects, _read_input_facts(payload))
    return [*paths, *_check_steps(payload, check)]


def _read_input_facts(payload: PipelinePayload) -> dict[str, Facts]:
    """Return the facts about at most `MAX_NAMES` submitted files. Runs in an analysis worker."""
    files = islice(payload.files.items(), MAX_NAMES)
    return {
        path: read_file_facts(path, decode_content(given)) for path, given in files if len(path) <= MOST_NAME
    }


def _collect_facts(payload: PipelinePayload, judged: Sequence[JudgedStep], result: RunResult) -> DataFacts:
    """Return the facts of a run: submitted files, changed files, and tables after the last SQL step."""
    tables = [step.tables for step in judged if step.tables is not None]
    outputs = {
        output.name: read_file_facts(output.name, output.content)
        for output in result.outputs
        if output.name != DATABASE_OUTPUT and len(output.name) <= MOST_NAME
    }
    inputs = getattr(payload, "inputs", {})
    return DataFacts(inputs=inputs, outputs=outputs, tables=dict(tables[-1]) if tables else {})


def _explain_sql_findings(
    payload: PipelinePayload, step: StepText, found: Sequence[Finding], policy: ExecutionPolicy
) -> Sequence[Finding]:
    """Add the correct forms for SQLite to the findings about a SQL step, if there are any."""
    if not found:
        return ()
    tables = prepare_tables_before(payload, step.number)
    return tuple(add_explanations(step.content, found, policy.sql, tables))


def _check_commands(payload: PipelinePayload, policy: ExecutionPolicy) -> Sequence[Finding]:
    """Check commands: ``rm data/sales.csv`` -> command.blocked."""
    files = shell.WorkFiles(submitted=frozenset(payload.files))

    def check(step: StepText) -> Sequence[Finding]:
        nonlocal files
        if step.program is not Writer.BASH:
            return ()
        if has_errors(shell.parse_script(step.content)):
            files = replace(files, written=("",))
            return ()  # The previous stage explains a script that isn't bash.
        checked = shell.check_script(step.content, policy.commands, network=policy.network, files=files)
        files = replace(files, written=(*files.written, *checked.written))
        return checked.findings

    return _check_steps(payload, check)


def _check_sql(payload: PipelinePayload, policy: ExecutionPolicy) -> Sequence[Finding]:
    """Check SQL: ``DELETE FROM sales`` -> sql.delete_without_where."""

    def check(step: StepText) -> Sequence[Finding]:
        if step.program is not Writer.SQL:
            return ()
        examined = sql.check_sql(step.content, policy.sql)
        doubts = () if examined.syntax else iter_suspicions(payload, step.number, step.content)
        return (*_explain_sql_findings(payload, step, examined.rules, policy), *doubts)

    return _check_steps(payload, check)


def _check_steps(
    submitted: PipelinePayload, check: Callable[[StepText], Sequence[Finding]]
) -> Sequence[Finding]:
    """Check every step, and add the step's name to each finding. Return at most `FINDINGS` findings."""
    found = (
        replace(
            finding,
            message=f"{step.label}: {finding.message}",
            file=step.name,
            context=finding.context or step.label,
        )
        for step in iter_numbered_steps(submitted)
        for finding in (add_correction(each, step.content) for each in check(step))
    )
    return list(islice(found, FINDINGS))


def _check_reserved_paths(files: Mapping[str, object]) -> Iterator[Finding]:
    for path in files:
        if path.split("/")[0] in _RESERVED_NAMES:
            yield Finding(
                rule="path.reserved",
                category="paths",
                message=f"payload.files: {shorten_text(path, 120)!a} is a path of the sandbox.",
                suggestion="Put files under data/.",
            )


def _build_unit(number: int, step: Step, policy: ExecutionPolicy, limits: Limits) -> Unit:
    stem = f"{number:02d}_{re.sub(r'[^a-z0-9]+', '_', step.name.lower()).strip('_')[:40] or 'step'}"
    script = f"scripts/{stem}.{'sh' if step.type == 'bash' else 'sql'}"
    if step.type == "bash":
        program = Program.EXEC
        arguments: Mapping[str, object] = {
            "argv": [BASH, "--noprofile", "--norc", script],
            "env": _ENVIRONMENT | ({"PATH": WHOLE_IMAGE_PATH} if policy.is_report_only else {}),
        }
    else:
        program, arguments = Program.SQL, _build_sql_arguments(step.content, "step", policy.sql, limits)
    return Unit(
        name=step.name,
        program=program,
        arguments=arguments,
        deadline_s=limits.unit_timeout_s,
        fresh_cwd=False,
        files={script: step.content.encode()},
        log=f"logs/{stem}",
    )


def _build_database_unit(database: Database, policy: SqlPolicy, limits: Limits) -> Unit:
    mode = "check" if database.schema_sql is None else "schema"
    return Unit(
        name=DATABASE_UNIT,
        program=Program.SQL,
        arguments=_build_sql_arguments(database.schema_sql or "", mode, policy, limits),
        deadline_s=limits.unit_timeout_s,
        fresh_cwd=False,
    )


def _build_sql_arguments(text: str, mode: str, policy: SqlPolicy, limits: Limits) -> Mapping[str, object]:
    return {
        "sql": text,
        "mode": mode,
        "pragmas": sorted(
            sql.READ_PRAGMAS | (sql.SESSION_PRAGMAS if policy.admits("sql.pragma") else frozenset())
        ),
        "admits": sorted(rule for rule in SQL_RULES if policy.admits(rule)),
        "max_rows": policy.max_rows,
        "max_cell_chars": policy.max_cell_chars,
        "max_bytes": limits.outputs_bytes,
    }


validator = PipelineKind()
