"""Defines the prompts for writing and for repairing a pipeline.

The instructions cover only the types of steps to write, so a SQL step gets no rules for bash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from assayd.findings.briefing import describe_file_head, describe_permissions
from assayd.findings.retry_context import list_errors, normalize_source
from assayd.model.policy import ExecutionPolicy
from assayd.model.prompting import Document, Example, PromptContext, Proposal
from assayd.static.work_paths import FileContent, decode_content
from assayd_pipeline.errors import ErrorSource as Writer
from assayd_pipeline.judging import StepText
from assayd_pipeline.payload import Database, PipelinePayload
from assayd_pipeline.shell.parse.source import normalize_script
from assayd_pipeline.sql import preparer
from assayd_pipeline.sql.read import InvalidSqlCharacter, tokenize

_HEAD_BYTES = 2048
TASK = "Write a pipeline: steps of bash or SQL, each with a name, a type and a content."
EXAMPLE = Example(
    request="Total data/sales.csv by region into the table totals and data/totals.csv.",
    context={
        "files": {"data/sales.csv": 'region,amount\n"central, upper",10\nnorth,2.5\nnorth,\n'},
        "database": {"schema_sql": "CREATE TABLE totals (region TEXT PRIMARY KEY, total REAL NOT NULL);"},
    },
    answer=Proposal(
        steps=(
            {
                "name": "total by region",
                "type": "sql",
                "content": (
                    "INSERT INTO totals\n"
                    "SELECT region, sum(CAST(amount AS REAL))\n"
                    "FROM \"data/sales.csv\" WHERE amount <> '' GROUP BY region\n"
                    "ON CONFLICT (region) DO UPDATE SET total = excluded.total;\n"
                    "SELECT region, total FROM totals ORDER BY region;\n"
                ),
            },
            {
                "name": "write totals.csv",
                "type": "bash",
                "content": (
                    "set -euo pipefail\n"
                    "jq -R -r 'split(\"\\t\") | @csv' logs/01_total_by_region.out > data/totals.csv\n"
                ),
            },
        )
    ),
    reason="SQL skips empty amounts and upserts totals; jq writes the selected rows as CSV.",
)


class PipelineContext(BaseModel):
    """The context for generating a pipeline: data files by path, and the database or its schema."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: Mapping[str, FileContent] = Field(default_factory=dict)
    database: Database | None = None


def describe_request_context(context: PipelineContext, tables: str | None) -> list[PromptContext]:
    """Return the context that the generated steps must fit. `tables` describes the database."""
    found = [PromptContext(title="tables and columns", text=tables)] if tables else []
    for path, given in sorted(context.files.items()):
        found.append(describe_file_head(path, decode_content(given), _HEAD_BYTES))
    return found


def add_proposal(base: Document, proposal: Proposal) -> Document:
    """Return a payload with the proposed steps, or with new texts for the steps with these numbers.

    Raises: ValueError, if a step number doesn't exist.
    """
    if proposal.form == "files":
        return {**base, "steps": _replace_steps(base.get("steps"), proposal.files)}
    return {**base, "steps": [dict(step) for step in proposal.steps]}


def _replace_steps(steps: object, texts: Mapping[str, str]) -> list[dict[str, object]]:
    found = [dict(step) for step in steps] if isinstance(steps, list) else []
    for number, text in texts.items():
        if number not in {str(place) for place in range(1, len(found) + 1)}:
            raise ValueError(f"step {number[:20]} doesn't exist; the pipeline has {len(found)} steps")
        found[int(number) - 1]["content"] = text
    return found


BOTH = frozenset({Writer.BASH, Writer.SQL})

_ORDER_ADVICE = "Steps run in order in one directory. Use relative paths below data/ and tmp/."
_OUTPUT_ADVICE = "What step 1, `Total by region`, prints is in logs/01_total_by_region.out for later steps."
_COMMANDS_UNKNOWN = (
    "Bash steps may run the usual text tools (awk, cat, cut, date, find, grep, head, join, jq, paste, sed, "
    "seq, sort, tail, tee, tr, uniq, wc, xargs) and builtins."
)
_STRICT = "Begin a bash step with `set -euo pipefail`: otherwise only its last command's exit code counts."
_BUILTINS_REFUSED = ("eval", "source")
"""Builtins that models often use; a profile may allow them."""

_CSV = (
    'SQL steps are SQLite. FROM "data/x.csv" (or "tmp/x.csv") reads a CSV file as a table: its first line '
    "names the columns, every value is TEXT, an empty field is ''. CAST before you compare or add: '' > 0 is "
    "true."
)
_UPSERT = (
    "Upsert: INSERT INTO t SELECT … FROM s WHERE true ON CONFLICT (key) DO UPDATE SET x = excluded.x, with a "
    "key that is PRIMARY KEY or UNIQUE."
)
_SQL_RULES = {
    "sql.if_not_exists": "CREATE without IF NOT EXISTS",
    "sql.update_without_where": "UPDATE without WHERE",
    "sql.delete_without_where": "DELETE without WHERE",
    "sql.replace": "REPLACE and INSERT OR REPLACE",
    "sql.drop": "DROP",
    "sql.alter": "ALTER TABLE other than ADD COLUMN",
}
"""Operations that configurable rules reject and that models often use."""
_SQL_ALWAYS_REJECTED = "TRUNCATE, ATTACH, .mode and other commands of the sqlite3 shell"
_RARE_COMMANDS = frozenset({
    "base64", "basename", "bc", "cksum", "cmp", "column", "comm", "diff", "dirname", "egrep", "env",
    "expand", "expr", "factor", "fgrep", "fmt", "fold", "getopt", "id", "ls", "md5sum", "mktemp", "nl",
    "nproc", "numfmt", "od", "pr", "printenv", "readlink", "realpath", "rev", "rmdir", "sha1sum",
    "sha256sum", "sha512sum", "shuf", "sleep", "split", "stat", "sum", "tac", "timeout", "touch",
    "truncate", "tsort", "uname", "unexpand", "whoami", "yes",
})  # fmt: skip
"""Commands that steps rarely run, omitted to keep prompts short."""


def usual(policy: ExecutionPolicy) -> ExecutionPolicy:
    """Return a policy for use in a prompt, without the allowed commands that steps rarely use.

    `curl` is also omitted if no host is allowed.
    """
    unreachable = frozenset() if policy.network.hosts else frozenset({"curl"})
    allowed = policy.commands.allowed - _RARE_COMMANDS - unreachable
    return replace(policy, commands=replace(policy.commands, allowed=allowed))


_OFTEN_REJECTED = ("rm",)
"""Rejected commands that models often use."""


def instructions(
    policy: ExecutionPolicy | None,
    types: Collection[Writer] = BOTH,
    *,
    alone: bool = False,
    commands: bool = True,
) -> tuple[str, ...]:
    """Return the instructions for steps of these types under the effective policy.

    Args:
        policy: the effective policy; None if the profile no longer exists.
        types: the types of the steps to write.
        alone: whether the pipeline has a single step, whose output no other step uses.
        commands: whether to include the allowed commands.
    """
    lines = [] if alone else [_ORDER_ADVICE, _OUTPUT_ADVICE, _describe_rows(policy)]
    if Writer.BASH in types:
        lines += [_STRICT, *(_describe_commands(policy) if commands else ())]
    if Writer.SQL in types:
        lines += [_CSV, _UPSERT, _describe_refused_sql(policy)]
    return tuple(lines)


def _describe_rows(policy: ExecutionPolicy | None) -> str:
    most = f", at most {policy.sql.max_rows} rows" if policy is not None else ""
    return (
        "A SQL step prints the rows that it selects as tab-separated lines after a line of column names, "
        f"without quotes, NULL as NULL{most}. Bash steps can't reach the database otherwise."
    )


def _describe_commands(policy: ExecutionPolicy | None) -> Iterator[str]:
    if policy is None:
        yield _COMMANDS_UNKNOWN
        return
    if policy.is_report_only:
        yield "Bash steps may run the image's programs (awk is gawk) and bash's builtins."
        yield from describe_permissions(policy, imports=False)
        return
    commands = policy.commands
    allowed = sorted((commands.allowed - commands.blocked) - commands.builtins)
    yield f"Bash steps may run these commands (awk is gawk) and bash's builtins: {', '.join(allowed)}."
    builtins = [name for name in _BUILTINS_REFUSED if name not in commands.builtins]
    if refused := [*builtins, *(name for name in _OFTEN_REJECTED if name in commands.blocked)]:
        yield f"Not allowed in bash: {', '.join(refused)}."
    yield from describe_permissions(policy, imports=False)


def _describe_refused_sql(policy: ExecutionPolicy | None) -> str:
    rules = {} if policy is not None and policy.is_report_only else _SQL_RULES
    refused = [words for rule, words in rules.items() if policy is None or not policy.sql.admits(rule)]
    return f"Not allowed in SQL: {'; '.join([*refused, _SQL_ALWAYS_REJECTED])}."


SAMPLE_ROWS = 3
"""Rows per table, if the request allows samples."""
_REPAIR_HEAD_BYTES = 1024
"""Bytes of each file in a request for a fix."""
_STEP_CHARS = 4000
"""Characters of each other step in a request for a fix."""


def iter_numbered_steps(submitted: PipelinePayload) -> Iterator[StepText]:
    """Yield every step with its number, in the form in which it is run."""
    for number, step in enumerate(submitted.steps, 1):
        yield StepText(
            number=number, name=step.name, program=Writer(step.type), content=normalize_script(step.content)
        )


def find_faulty_step(submitted: PipelinePayload, report: Mapping[str, object]) -> StepText:
    """Return the step whose name begins the message of the first error with such a name.

    Without such an error, return the first step or, without steps, an empty step.
    """
    steps = list(iter_numbered_steps(submitted))
    for finding in list_errors(report):
        for step in steps:
            if str(finding.get("message")).startswith(f"{step.label}:"):
                return step
    return steps[0] if steps else StepText(number=1, name="", program=Writer.BASH, content="")


def find_faulty_types(submitted: PipelinePayload, report: Mapping[str, object]) -> frozenset[Writer]:
    """Return the types of the steps with errors or, without errors, the type of the first step."""
    found = {
        step.program
        for finding in list_errors(report)
        for step in iter_numbered_steps(submitted)
        if str(finding.get("message")).startswith(f"{step.label}:")
    }
    return frozenset(found or {find_faulty_step(submitted, report).program})


def iter_fix_context(submitted: PipelinePayload, step: StepText, failure: str) -> Iterator[PromptContext]:
    """Yield the context that a fix must fit: the schema, relevant files, and all other steps."""
    if step.program is Writer.SQL and (tables := describe_tables(submitted.database)) is not None:
        yield PromptContext(title="tables", text=tables)
    named = [path for path in submitted.files if path in step.content or path in failure]
    shown = sorted(named if named and "*" not in step.content else submitted.files)
    for path in shown:
        yield describe_file_head(path, decode_content(submitted.files[path]), _REPAIR_HEAD_BYTES)
    if others := sorted(submitted.files.keys() - set(shown)):
        yield PromptContext(title="other files, not shown", text="\n".join(others))
    for other in iter_numbered_steps(submitted):
        if other.number != step.number:
            yield _describe_other_step(other)


def _describe_other_step(step: StepText) -> PromptContext:
    size = len(step.content)
    cut = f", first {_STEP_CHARS} of {size} characters" if size > _STEP_CHARS else ""
    title = f"{step.label}, {step.program.value}{cut}"
    return PromptContext(title=title, text=step.content[:_STEP_CHARS])


def describe_tables(database: Database | None) -> str | None:
    """Return the schema, or a description of the tables in a database file, or None without a database."""
    if database is None:
        return None
    if database.schema_sql is not None:
        return database.schema_sql
    return preparer.describe_database(database.content, SAMPLE_ROWS if database.sample_rows else 0)


def normalize_step(step: StepText) -> bytes:
    """Return a step without layout and comments, so that steps can be compared."""
    if step.program is Writer.BASH:
        return normalize_source(step.content, "#")
    try:
        return " ".join(token.text for token in tokenize(step.content)).encode()
    except InvalidSqlCharacter:
        return normalize_source(step.content, "--")
