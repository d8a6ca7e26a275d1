"""Writes the prompt's instructions for steps: their form, and the policy's allowances. Pure.

They cover only the types of the steps in question: a SQL step gets no bash rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from assayd.findings.briefing import allowances
from assayd.model.policy import ExecutionPolicy
from assayd_pipeline.errors import ErrorSource as Writer

BOTH = frozenset({Writer.BASH, Writer.SQL})

_ORDER = (
    "Steps run in order in one directory with data/, tmp/, scripts/ and logs/. Use relative paths, such as "
    "data/sales.csv."
)
_OUTPUT = (
    "Later steps find what a step prints in logs/NN_name.out: its number, and its name in lowercase with _ "
    "for other characters, such as logs/01_total_by_region.out."
)
_COMMANDS_UNKNOWN = (
    "Bash steps may run the usual text tools (awk, cat, cut, date, find, grep, head, join, jq, paste, sed, "
    "seq, sort, tail, tee, tr, uniq, wc, xargs) and builtins."
)
_STRICT = (
    "The exit code of a bash step decides: without `set -euo pipefail` on its first line, that is the exit "
    "code of its last command."
)
_BUILTINS_REFUSED = ("eval", "source", ".", "alias", "enable")
"""Builtins that models often use; a profile may allow them."""

_CSV = (
    'SQL steps are SQLite. FROM "data/x.csv" reads a CSV file as a table: its first line names the columns, '
    "every value is TEXT, and an empty field is ''. CAST values before you compare or add them: '' > 0 is "
    "true in SQLite."
)
_UPSERT = (
    "Upsert: INSERT INTO t SELECT … FROM s WHERE true ON CONFLICT (key) DO UPDATE SET x = excluded.x. "
    "The key needs PRIMARY KEY or UNIQUE."
)
_SQL_RULES = {
    "sql.if_not_exists": "CREATE without IF NOT EXISTS",
    "sql.update_without_where": "UPDATE without WHERE",
    "sql.delete_without_where": "DELETE without WHERE",
    "sql.replace": "REPLACE and INSERT OR REPLACE",
    "sql.drop": "DROP",
    "sql.alter": "ALTER TABLE other than ADD COLUMN",
    "sql.trigger": "triggers",
    "sql.virtual_table": "virtual tables",
}
"""Operations that configurable rules reject, ordered by how often models violate the rules."""
_SQL_NEVER = "TRUNCATE, ATTACH, VACUUM and commands of the sqlite3 shell such as .mode"


def instructions(
    policy: ExecutionPolicy | None, types: Collection[Writer] = BOTH, *, selects: bool = True
) -> tuple[str, ...]:
    """Return the instructions for steps of these types by the effective policy.

    Args:
        policy: None means that the profile no longer exists.
        types: the types of the steps to write.
        selects: whether a step may need the rows that a SQL step selects.
    """
    lines = [_ORDER, _OUTPUT]
    if selects:
        lines.append(_rows(policy))
    if Writer.BASH in types:
        lines += _bash(policy)
    if Writer.SQL in types:
        lines += [_CSV, _UPSERT, _refused(policy)]
    return tuple(lines)


def _rows(policy: ExecutionPolicy | None) -> str:
    most = f", at most {policy.sql.max_rows} rows of them" if policy is not None else ""
    return (
        "Rows that a SQL step selects are printed as tab-separated lines after a line of column names, "
        f"without quotes, NULL as NULL{most}. Bash steps can't reach the database otherwise."
    )


def _bash(policy: ExecutionPolicy | None) -> Iterator[str]:
    yield _STRICT
    if policy is None:
        yield _COMMANDS_UNKNOWN
        return
    commands = policy.commands
    allowed = sorted((commands.allowed - commands.blocked) - commands.builtins)
    yield f"Bash steps may run these commands (awk is gawk) and bash's builtins: {', '.join(allowed)}."
    builtins = [name for name in _BUILTINS_REFUSED if name not in commands.builtins]
    if refused := [*builtins, *sorted(commands.blocked)]:
        yield f"Not allowed in bash: {', '.join(refused)}."
    yield from allowances(policy, imports=False)


def _refused(policy: ExecutionPolicy | None) -> str:
    refused = [words for rule, words in _SQL_RULES.items() if policy is None or not policy.sql.admits(rule)]
    return f"Not allowed in SQL: {'; '.join([*refused, _SQL_NEVER])}."
