"""Pipelines: bash and SQL steps that run in order, up to the first that fails.

Static: is every step bash or SQL (parse), what may scripts run (commands), what may statements do (sql); each
stage stops the ones after it. Then all steps in one container, a process each, in a directory that they
share; the database exists as a file only while a SQL step runs. Source: seed 001, phase 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType

from assayd.errors import RequestError
from assayd.findings import exec_unit
from assayd.findings import runs as run_findings
from assayd.findings.repair_context import context_of, errors_of, without_layout
from assayd.findings.retry_context import retry_context
from assayd.findings.runs import cause_finding
from assayd.kinds.pipeline import judging as pipeline_run
from assayd.kinds.pipeline.errors import Program as Writer
from assayd.kinds.pipeline.judging import BASH, StepText, judge_database, judge_outputs, judge_step
from assayd.kinds.pipeline.payload import Database, PipelinePayload, Step, payload_of_files
from assayd.model.finding import Finding, Rule
from assayd.model.policy import ExecutionPolicy, SqlPolicy
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import DATABASE_OUTPUT, Cause, Limits, Program, RunResult, RunSpec, Unit
from assayd.model.submission import Sample
from assayd.model.text_limits import FINDINGS, shorten
from assayd.ports.repairable import Passage, RepairContext, Surrounding
from assayd.ports.validator import Cap, FileOptions, OnFail, Stage, Validator
from assayd.static import shell, sql, work_paths
from assayd.static.shell.parse.source import clean
from assayd.static.sql import tokens as sql_tokens
from assayd.static.work_files import content_of
from assayd.static.work_paths import check_paths

FOLDERS = ("data", "tmp", "scripts", "logs")
"""What the sandbox directory holds. Source: seed 001, 4.2."""
COLLECTED = ("**", "!tmp/**", "!scripts/**", "!.database/**", f"!{DATABASE_OUTPUT}")
DATABASE_UNIT = "database"
_ENVIRONMENT = {"HOME": "/sandbox", "LANG": "C.UTF-8", "TMPDIR": "/sandbox/tmp", "TZ": "UTC"}
_RESERVED = ("scripts", "logs", ".database", DATABASE_OUTPUT)

_RULES = (
    *shell.RULES,
    *sql.RULES,
    *work_paths.RULES,
    Rule(
        id="path.reserved",
        title="A path that the sandbox uses itself",
        help="Bad: scripts/01.sh, logs/x. Good: data/sales.csv.",
    ),
    Rule(id="pipeline.no_steps", title="A pipeline without steps", help="Bad: steps []."),
    *run_findings.CAUSE_RULES,
    run_findings.LIMIT_RULE,
    exec_unit.NOT_EXECUTED_RULE,
    *pipeline_run.RULES,
)

_HEAD_BYTES = 1024
"""How much of each file a request for a fix shows."""

_HEADLINES = {
    "parse": "The pipeline cannot be read:",
    "commands": "Bash steps do what they may not do:",
    "sql": "SQL steps do what they may not do:",
    "sandbox": "The pipeline ran and failed:",
}
_REMINDERS = (
    "Steps run in order in one directory that holds data/, tmp/, scripts/ and logs/; use relative paths.",
    "Bash steps may use: awk, cat, cp, cut, date, echo, grep, head, mv, sed, sort, tail, uniq, wc, and shell "
    "builtins such as printf, read and test.",
    'SQL steps are SQLite; FROM "data/x.csv" reads a CSV file as a table; CREATE needs IF NOT EXISTS, UPDATE '
    "and DELETE need WHERE.",
    "Bash steps cannot reach the database; what a step prints is in logs/NN_name.out for the steps after it.",
)


def _sample(name: str, *steps: tuple[str, str], rules: Sequence[str] = (), **more: object) -> Sample:
    """Make a sample; one without rules is good, and one with rules of the run needs a container."""
    payload = {
        "steps": [
            {"name": f"step {n}", "type": kind, "content": text} for n, (kind, text) in enumerate(steps, 1)
        ],
        **more,
    }
    runs = all(rule.startswith(("step.", "sandbox.", "database.", "outputs.")) for rule in rules)
    verdict = "failed" if rules else "validated"
    return Sample(name=name, payload=payload, verdict=verdict, rules=frozenset(rules), needs_container=runs)


_CLEAN = (
    "set -euo pipefail\nawk -F, 'NR == 1 || $2 > 0' data/sales.csv > tmp/clean.csv\nwc -l < tmp/clean.csv\n"
)
_LOAD = (
    "CREATE TABLE IF NOT EXISTS sales (region TEXT NOT NULL, amount REAL NOT NULL);\n"
    'INSERT INTO sales SELECT region, amount FROM "tmp/clean.csv";\n'
    "SELECT region, sum(amount) AS total FROM sales GROUP BY region ORDER BY region;\n"
)
_KEEP = "cat logs/02_step_2.out > data/totals.tsv\n"
_SALES = {"data/sales.csv": "region,amount\nnorth,10\nsouth,-1\nnorth,5\n"}
_BROKEN = {"schema_sql": "CREATE TABEL t"}
_ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

_SAMPLES = (
    _sample("good", ("bash", _CLEAN), ("sql", _LOAD), ("bash", _KEEP), files=_SALES),
    _sample(
        "schema",
        ("sql", "UPDATE t SET a = 2 WHERE a = 1"),
        database={"schema_sql": "CREATE TABLE t (a); INSERT INTO t VALUES (1);"},
    ),
    _sample("not_bash", ("bash", "if true; then"), rules=["shell.syntax"]),
    _sample("not_sql", ("sql", "SELCT 1"), rules=["sql.syntax"]),
    _sample("blocked", ("bash", "rm data/sales.csv"), rules=["command.blocked"]),
    _sample("all_rows", ("sql", "DELETE FROM sales -- WHERE id = 1"), rules=["sql.delete_without_where"]),
    _sample("drops", ("sql", "DROP TABLE sales"), rules=["sql.drop"]),
    _sample("upwards", ("bash", "true"), files={"../x": ""}, rules=["path.invalid"]),
    _sample("missing_file", ("bash", "cat data/gone.csv"), rules=["step.file_not_found"]),
    _sample("missing_table", ("sql", "SELECT * FROM gone"), rules=["step.table_missing"]),
    _sample("endless", ("sql", _ENDLESS), rules=["sandbox.timeout"]),
    _sample("bad_schema", ("sql", "SELECT 1"), database=_BROKEN, rules=["database.schema"]),
)


class Pipeline:
    """The kind `pipeline`."""

    kind: str = "pipeline"
    payload: type[PipelinePayload] = PipelinePayload
    bounded: Mapping[str, Cap] = MappingProxyType(
        {"steps.*.content": Cap.SOURCE, "files.*": Cap.SOURCE, "steps": Cap.STEPS}
    )
    recorder: str = "assayd.kinds.pipeline.recorder:recorder"
    routes: str = "assayd.kinds.pipeline.routes:router"
    default_policy: str = "pipeline"
    image: str = "shell"
    rules: Sequence[Rule] = _RULES
    runtime_stages: Sequence[str] = ("sandbox",)
    samples: Sequence[Sample] = _SAMPLES

    @property
    def stages(self) -> Sequence[Stage[PipelinePayload]]:
        """The static stages, in order."""
        return (
            Stage(name="parse", check=_check_parse, on_fail=OnFail.STOP),
            Stage(name="commands", check=_check_commands, on_fail=OnFail.STOP),
            Stage(name="sql", check=_check_sql, on_fail=OnFail.STOP),
        )

    def from_files(self, files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
        """Build a payload: ``*.sh`` and ``*.sql`` are steps in the order of their names, the rest is data.

        ``schema.sql`` is the schema, ``*.db`` and ``*.sqlite`` the database; other files keep their folder,
        or go to data/.
        """
        if options.input is not None or options.sample_paths or options.extra.keys() - {"pipeline_id"}:
            raise RequestError("request.options", "a pipeline takes files and --option pipeline_id=ID")
        return {**payload_of_files(files), **options.extra}

    def prepare(self, payload: PipelinePayload) -> PipelinePayload:
        """Return the steps without byte order marks, and with plain line ends."""
        cleaned = tuple(step.model_copy(update={"content": clean(step.content)}) for step in payload.steps)
        return payload if cleaned == payload.steps else payload.model_copy(update={"steps": cleaned})

    def plan(self, payload: PipelinePayload, policy: ExecutionPolicy, limits: Limits) -> RunSpec:
        """Plan a unit per step, behind one that makes or checks the database."""
        units = [_unit(number, step, policy.sql, limits) for number, step in enumerate(payload.steps, 1)]
        database = payload.database
        if database is not None:
            units.insert(0, _database_unit(database, policy.sql, limits))
        return RunSpec(
            image=self.image,
            limits=limits,
            units=tuple(units),
            network=policy.network,
            imports=policy.imports,
            folders=FOLDERS,
            files={path: content_of(given) for path, given in payload.files.items()},
            database=b"" if database is None else database.content,
            preload=("csv", "sqlite3"),
            collect=COLLECTED,
            changed_only=True,
            stop_on_failure=True,
            allow_exec=True,
        )

    def judge(self, payload: PipelinePayload, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Judge the database, every step, and what was left behind."""
        units = iter(result.units)
        found: list[Finding] = []
        if payload.database is not None:
            found += judge_database(payload.database, next(units, None))
        judged = [judge_step(text, next(units, None)) for text in _texts(payload)]
        found += [step.finding for step in judged if step.finding is not None]
        cases = tuple(step.case for step in judged)
        if not found:
            found += judge_outputs(result)
        if not found and any(case.status is not CaseStatus.PASSED for case in cases):
            cause = Cause.PROTOCOL_VIOLATION if result.outcome.completed else result.outcome.cause
            found.append(cause_finding(cause, "The run", "steps have no result"))
        return Judgement(stage_findings={"sandbox": tuple(found)}, cases=cases)

    def retry_context(self, findings: Sequence[Finding], stage: str) -> str:
        """Word a failed stage for a model."""
        headline = _HEADLINES.get(stage, "The pipeline was refused:")
        return retry_context(findings, headline=headline, reminders=_REMINDERS)

    def context(self, payload: PipelinePayload, report: Mapping[str, object]) -> RepairContext:
        """Ask for the step that failed again, with what is around it."""
        step = _faulty(payload, report)
        return context_of(
            Passage(name=str(step.number), language=step.program.value, text=step.content),
            report,
            instructions=_REMINDERS,
            runtime_stages=self.runtime_stages,
            surroundings=tuple(_around(payload, step)),
            about=lambda hint: str(hint.get("message")).startswith(f"{step.label}:"),
        )

    def patch(self, payload: PipelinePayload, passage: str, code: str) -> Mapping[str, object]:
        """Put another text in the place of the step of that number."""
        document = payload.model_dump(mode="json", exclude_unset=True)
        steps = [dict(step) for step in document["steps"]]
        steps[int(passage) - 1]["content"] = code
        return {**document, "steps": steps}

    def normal_form(self, payload: PipelinePayload) -> bytes:
        """Return the words of all steps."""
        return b"\n;\n".join(_normal(step) for step in _texts(payload))


def _texts(submitted: PipelinePayload) -> Iterator[StepText]:
    for number, step in enumerate(submitted.steps, 1):
        yield StepText(number=number, name=step.name, program=Writer(step.type), content=clean(step.content))


def _faulty(submitted: PipelinePayload, report: Mapping[str, object]) -> StepText:
    """Find the step that the first error is about; errors of steps begin with the step's name."""
    steps = list(_texts(submitted))
    for finding in errors_of(report):
        for step in steps:
            if str(finding.get("message")).startswith(f"{step.label}:"):
                return step
    return steps[0] if steps else StepText(number=1, name="", program=Writer.BASH, content="")


def _around(submitted: PipelinePayload, step: StepText) -> Iterator[Surrounding]:
    """Tell what a fix has to fit into: the schema, the heads of the files, the steps before it."""
    if submitted.database is not None and submitted.database.schema_sql is not None:
        yield Surrounding(title="tables", text=submitted.database.schema_sql)
    for path, content in sorted(submitted.files.items()):
        head = content_of(content)[:_HEAD_BYTES].decode("utf-8", "replace")
        yield Surrounding(title=f"file {path}", text=head)
    for before in list(_texts(submitted))[: step.number - 1]:
        yield Surrounding(title=f"{before.label}, {before.program.value}", text=before.content)


def _normal(step: StepText) -> bytes:
    if step.program is Writer.BASH:
        return without_layout(step.content, "#")
    try:
        return " ".join(token.text for token in sql_tokens.tokenize(step.content)).encode()
    except sql_tokens.NotSql:
        return without_layout(step.content, "--")


def _check_parse(payload: PipelinePayload, policy: ExecutionPolicy) -> Sequence[Finding]:
    """``if true; then`` -> shell.syntax; ``SELCT 1`` -> sql.syntax; the file ``../x`` -> path.invalid."""
    if not payload.steps:
        suggestion = "Submit steps, or the id of a pipeline that has some."
        finding = Finding(
            rule="pipeline.no_steps", category="syntax", message="There are no steps.", suggestion=suggestion
        )
        return [finding]
    reads: dict[Writer, Callable[[str], Sequence[Finding]]] = {
        Writer.BASH: shell.parse_script,
        Writer.SQL: lambda text: sql.examine(text, policy.sql).syntax,
    }
    paths = [*check_paths(payload.files, field="payload.files"), *_reserved(payload.files)]
    return [*paths, *_of_steps(payload, lambda step: reads[step.program](step.content))]


def _check_commands(payload: PipelinePayload, policy: ExecutionPolicy) -> Sequence[Finding]:
    """``rm data/sales.csv`` -> command.blocked."""

    def check(step: StepText) -> Sequence[Finding]:
        if step.program is not Writer.BASH:
            return ()
        return shell.check_script(step.content, policy.commands, network=policy.network).findings

    return _of_steps(payload, check)


def _check_sql(payload: PipelinePayload, policy: ExecutionPolicy) -> Sequence[Finding]:
    """``DELETE FROM sales`` -> sql.delete_without_where."""

    def check(step: StepText) -> Sequence[Finding]:
        return sql.examine(step.content, policy.sql).rules if step.program is Writer.SQL else ()

    return _of_steps(payload, check)


def _of_steps(
    submitted: PipelinePayload, check: Callable[[StepText], Sequence[Finding]]
) -> Sequence[Finding]:
    """Check every step, and say in each finding whose it is."""
    found = (
        replace(finding, message=f"{step.label}: {finding.message}", context=finding.context or step.label)
        for step in _texts(submitted)
        for finding in check(step)
    )
    return list(islice(found, FINDINGS))


def _reserved(files: Mapping[str, object]) -> Iterator[Finding]:
    for path in files:
        if path.split("/")[0] in _RESERVED:
            yield Finding(
                rule="path.reserved",
                category="paths",
                message=f"payload.files: {shorten(path, 120)!a} is where the sandbox keeps its own.",
                suggestion="Put files under data/.",
            )


def _unit(number: int, step: Step, policy: SqlPolicy, limits: Limits) -> Unit:
    stem = f"{number:02d}_{re.sub(r'[^a-z0-9]+', '_', step.name.lower()).strip('_')[:40] or 'step'}"
    script = f"scripts/{stem}.{'sh' if step.type == 'bash' else 'sql'}"
    if step.type == "bash":
        program = Program.EXEC
        arguments: Mapping[str, object] = {
            "argv": [BASH, "--noprofile", "--norc", script],
            "env": _ENVIRONMENT,
        }
    else:
        program, arguments = Program.SQL, _sql_arguments(step.content, "step", policy, limits)
    return Unit(
        name=step.name,
        program=program,
        arguments=arguments,
        deadline_s=limits.unit_timeout_s,
        fresh_cwd=False,
        files={script: step.content.encode()},
        log=f"logs/{stem}",
    )


def _database_unit(database: Database, policy: SqlPolicy, limits: Limits) -> Unit:
    mode = "check" if database.schema_sql is None else "schema"
    return Unit(
        name=DATABASE_UNIT,
        program=Program.SQL,
        arguments=_sql_arguments(database.schema_sql or "", mode, policy, limits),
        deadline_s=limits.unit_timeout_s,
        fresh_cwd=False,
    )


def _sql_arguments(text: str, mode: str, policy: SqlPolicy, limits: Limits) -> Mapping[str, object]:
    return {
        "sql": text,
        "mode": mode,
        "pragmas": sorted(sql.READ_PRAGMAS),
        "max_rows": policy.max_rows,
        "max_cell_chars": policy.max_cell_chars,
        "max_bytes": limits.outputs_bytes,
    }


validator: Validator[PipelinePayload] = Pipeline()
