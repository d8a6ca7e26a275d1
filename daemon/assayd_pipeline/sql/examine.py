"""Checks the SQL of one step for valid syntax and against the policy's rules.

SELCT * FROM t                       sql.syntax      (near "SELCT")          edit: SELECT * FROM t
CREATE TABLE … (a INT,)              sql.syntax      (near ")")              edit: … (a INT)
DROP TABLE sales                     sql.drop
PRAGMA journal_mode = WAL            sql.pragma
CREATE TRIGGER x AFTER INSERT ON …   sql.trigger
SELECT * FROM t WHERE id = ?         sql.parameter
CREATE TABLE … UNIQUE ON CONFLICT REPLACE    sql.replace
SELECT '; DROP TABLE t' -- DROP      nothing: strings and comments aren't statements
BEGIN; …; COMMIT                     nothing

Rules on the syntax tree of one statement:

UPDATE sales SET amount = 0                     sql.update_without_where
DELETE FROM sales -- WHERE id = 1               sql.delete_without_where   (a comment isn't a condition)
WITH x AS (…) DELETE FROM sales                 sql.delete_without_where   (its own level has none)
DELETE FROM sales WHERE 1 = 1                   sql.where_constant         (a warning)
CREATE TABLE sales (id)                         sql.if_not_exists          (with the edit that adds it)
INSERT OR REPLACE INTO sales …                  sql.replace
SELECT load_extension('x')                      sql.function
DELETE FROM a WHERE id IN (SELECT id FROM b)    nothing

Commands and functions of the sqlite3 shell, with suggested replacements:

.mode csv                               sql.dot_command
.import data/x.csv t                    sql.dot_command
SELECT median(x) FROM t                 sql.shell
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING

from assayd.did_you_mean import find_close_names
from assayd.findings.source_text import get_line, get_snippet
from assayd.model.finding import Edit, Finding, Severity
from assayd.model.policy import RuleLevel, SqlPolicy
from assayd.model.text_limits import FINDINGS
from assayd_pipeline.sql import rules, tree
from assayd_pipeline.sql.mending import (
    build_replace_token_edit,
    find_doubled_quote_edit,
    find_open_string_lines,
    find_parenthesis_edit,
    find_quote_edit,
    find_respelled_word,
    find_stray_token,
    find_syntax_edit,
    find_unclosed_parenthesis,
    is_misspelling,
)
from assayd_pipeline.sql.read import SqlStatement, SqlText, SqlToken, SqlTokenKind, split_sql
from assayd_pipeline.sql.rules import (
    EXTERNAL_FUNCTIONS,
    MADE,
    PROVIDED,
    REFUSED,
    SHELL_COMMANDS,
    SHELL_FUNCTIONS,
    apply_levels,
)

if TYPE_CHECKING:
    from sqlglot import exp


_COMMAND = re.compile(r"\.([a-z]+)\b")
_REMOVE_HINT = "Remove it: rows are already printed with column names and tabs."

_ALLOWED_VERBS = tree.PARSED_VERBS | rules.TRANSACTION_VERBS | {"ALTER", "PRAGMA"}
_KNOWN_VERBS = _ALLOWED_VERBS | rules.REFUSED.keys() | rules.USELESS_VERBS
_SPLIT_HINT = "Split the step, or read rows from a CSV file."
_OBJECTS_BY_VERB = {
    "ALTER": ("TABLE",),
    "CREATE": ("TABLE", "INDEX", "VIEW", "TRIGGER", "UNIQUE", "TEMP", "TEMPORARY", "VIRTUAL"),
    "DROP": ("TABLE", "INDEX", "VIEW", "TRIGGER"),
}


def find_shell_commands(text: SqlText) -> Iterator[Finding]:
    """Yield findings about sqlite3 shell commands, which begin with a dot at a statement's start.

    A position is a statement's start if only comments and shell commands precede it since the last
    semicolon.
    """
    begins, offset = True, 0
    for line in text.content.split("\n"):
        if begins and (found := _COMMAND.match(line)):
            name = found[1][:20]
            message = f".{name} is a command of the sqlite3 shell, not SQL."
            yield text.finding(
                "sql.dot_command", message, at=offset, suggestion=SHELL_COMMANDS.get(name, _REMOVE_HINT)
            )
        offset += len(line) + 1
        told = line.strip()
        if told and not told.startswith(("--", ".", "*", "/*")):
            begins = told.endswith((";", "*/"))


def find_shell_functions(text: SqlText, statement: SqlStatement) -> Iterator[Finding]:
    """Yield findings about calls of functions that exist only in the sqlite3 shell."""
    for place, (token, following) in enumerate(pairwise(statement.tokens)):
        name = token.text.lower()
        if name == "decimal" and _is_column_type(statement.tokens[place + 1 : place + 5]):
            continue
        if (
            token.kind is SqlTokenKind.WORD
            and following.is_any_of("(")
            and name in SHELL_FUNCTIONS.keys() - EXTERNAL_FUNCTIONS - PROVIDED
        ):
            message = f"{name}() exists only in the sqlite3 shell, not in SQLite."
            suggestion = f"Write instead: {SHELL_FUNCTIONS[name]}."
            yield text.finding("sql.shell", message, at=token.start, suggestion=suggestion)


def _is_column_type(following: Sequence[SqlToken]) -> bool:
    """Return whether a word is followed by the lengths of a column type, as in ``DECIMAL(15, 2)``."""
    inside = following[1:2] if len(following) > 2 and following[2].is_any_of(")") else following[1:4:2]
    return bool(inside) and all(token.kind is SqlTokenKind.NUMBER for token in inside)


def describe_replacement(name: str) -> str:
    """Return a hint to replace a function that accesses data outside the database, or to remove it."""
    found = SHELL_FUNCTIONS.get(name.lower())
    return f"It exists only in the sqlite3 shell. Write instead: {found}." if found else "Remove it."


def check_tree(text: SqlText, statement: SqlStatement, root: exp.Expr) -> Iterator[Finding]:
    """Yield the findings about policy violations in a statement's syntax tree."""
    from sqlglot import exp

    start = statement.tokens[0].start
    for node in root.walk():
        if isinstance(node, exp.Update | exp.Delete):
            yield from _judge_condition(text, start, node)
        elif isinstance(node, exp.Anonymous) and _leaves_database(node):
            message = f"{node.name}() accesses data outside the database."
            yield text.finding("sql.function", message, at=start, suggestion=describe_replacement(node.name))
    if isinstance(root, exp.Create):
        yield from _check_create(text, statement, root)
    if _deletes_on_conflict(statement, root):
        rule, message, suggestion = REFUSED["REPLACE"]
        yield text.finding(rule, f"OR {message}.", at=start, suggestion=suggestion)


def _leaves_database(call: exp.Anonymous) -> bool:
    """Return whether a function loads code or accesses files, except `readfile` below ``data/``."""
    from sqlglot import exp

    name, first = call.name.lower(), next(iter(call.expressions), None)
    outside = isinstance(first, exp.Literal) and not first.name.startswith("data/")
    return name in EXTERNAL_FUNCTIONS or (name == "readfile" and outside)


def _judge_condition(text: SqlText, start: int, node: exp.Update | exp.Delete) -> Iterator[Finding]:
    verb, where = type(node).__name__.upper(), node.args.get("where")
    if where is None:
        yield text.finding(
            f"sql.{verb.lower()}_without_where",
            f"{verb} without WHERE changes every row.",
            at=start,
            suggestion=f"Select rows: {verb} … WHERE …",
        )
    elif _is_constant(where.this):
        yield text.finding(
            "sql.where_constant",
            f"The WHERE condition of this {verb} is the same for every row.",
            at=start,
            suggestion="Compare a column in the condition.",
            severity=Severity.WARNING,
        )


def _is_constant(condition: exp.Expr) -> bool:
    """Return whether a condition is the same for all rows: no column, or a column compared with itself."""
    from sqlglot import exp

    match condition:
        case exp.Paren():
            return _is_constant(condition.this)
        case exp.Or():
            return _is_constant(condition.left) or _is_constant(condition.right)
        case exp.And():
            return _is_constant(condition.left) and _is_constant(condition.right)
        case exp.EQ() | exp.GTE() | exp.LTE() | exp.Is() if condition.left == condition.right:
            return True
    return condition.find(exp.Column, exp.Query) is None


def _check_create(text: SqlText, statement: SqlStatement, root: exp.Create) -> Iterator[Finding]:
    kind = (root.kind or "").upper()
    place = next((token for token in statement.tokens if token.is_any_of(*MADE)), statement.tokens[0])
    if kind not in MADE:
        suggestion = f"A step can create {', '.join(MADE)}."
        yield text.finding(
            "sql.statement", f"CREATE {kind} isn't allowed.", at=place.start, suggestion=suggestion
        )
    elif not root.args.get("exists"):
        yield text.finding(
            "sql.if_not_exists",
            f"CREATE {kind} needs IF NOT EXISTS.",
            at=statement.tokens[0].start,
            suggestion=f"Write CREATE {kind} IF NOT EXISTS …",
            edit=_build_insertion_edit(text, place.end, " IF NOT EXISTS"),
        )


def _build_insertion_edit(text: SqlText, offset: int, added: str) -> Edit:
    line, column = text.place(offset)
    old = get_line(text.content, line) or ""
    return Edit(start_line=line, end_line=line, replacement=old[: column - 1] + added + old[column - 1 :])


def _deletes_on_conflict(statement: SqlStatement, root: exp.Expr) -> bool:
    """Return whether rows are deleted on conflicts: ``INSERT OR REPLACE``, ``UPDATE OR REPLACE``."""
    update = statement.after("UPDATE", "OR")
    alternative = str(root.args.get("alternative") or "")
    return alternative.upper() == "REPLACE" or (update is not None and update.is_any_of("REPLACE"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlFindings:
    """The findings about SQL: `syntax` findings prevent parsing, and `rules` findings are violations."""

    syntax: tuple[Finding, ...] = ()
    rules: tuple[Finding, ...] = ()


@lru_cache(maxsize=256)
def check_sql(content: str, policy: SqlPolicy) -> SqlFindings:
    """Check a step's SQL, and cache the result, because two stages check the same texts."""
    text = split_sql(content)
    examined = _examine_text(text, policy)
    if len(examined.syntax) != 1 or examined.syntax[0].rule != "sql.syntax" or examined.syntax[0].edit:
        return examined
    [found] = examined.syntax
    return replace(examined, syntax=(_add_repair(text, found, policy),))


def _add_repair(text: SqlText, found: Finding, policy: SqlPolicy) -> Finding:
    """Add the edit and, if it is certain, the intended word to a syntax error."""

    def reads(other: str) -> bool:
        return not _examine_text(split_sql(other), policy).syntax

    statement = next((s for s in text.statements if _contains_finding(s, text, found)), None)
    opened = find_unclosed_parenthesis(statement) if statement is not None else None
    if text.broken is not None and (quote := text.content[text.broken.place]) in "'\"":
        if quote == "'" and (inner := find_doubled_quote_edit(text.content, reads)) is not None:
            said = "The quote inside the string ends it. Double it: `''`."
            return _place_at_edit(text, replace(found, suggestion=said), inner)
        edit = find_quote_edit(text.content, quote, reads) or find_syntax_edit(text.content, statement, reads)
        return _place_at_edit(text, found, edit) if edit else _place_at_string(text, found, quote)
    if statement is not None and opened is not None:
        edit = find_parenthesis_edit(text.content, statement, reads)
        line, column = text.place(opened.start)
        said = f"Close the '(' opened on line {line}, column {column}."
        if edit is not None:
            return _place_at_edit(text, replace(found, suggestion=said), edit)
        found = replace(
            found, suggestion=said, line=line, column=column, snippet=get_snippet(text.content, line)
        )
    edit = find_syntax_edit(text.content, statement, reads)
    word = find_respelled_word(text.content, edit) if edit is not None else None
    return replace(found, edit=edit, suggestion=f"Did you mean {word}?" if word else found.suggestion)


def _place_at_edit(text: SqlText, found: Finding, edit: Edit) -> Finding:
    """Add an edit to a finding, and move the finding to the edited line, which can be far before its line."""
    shown = get_snippet(text.content, edit.start_line)
    column = len(text.content.split("\n")[edit.start_line - 1]) + 1
    return replace(found, line=edit.start_line, column=column, snippet=shown, edit=edit)


def _place_at_string(text: SqlText, found: Finding, quote: str) -> Finding:
    """Move a finding to the first string that spans several lines, because a quote may be missing there.

    Return the finding unchanged if no such string begins on another line.
    """
    ends = find_open_string_lines(text.content, quote)
    line, column = text.place(ends[0]) if ends else (found.line, found.column)
    if line is None or line == found.line:
        return found
    said = f"Close every quote: the first unclosed {quote} is on line {line}."
    return replace(found, line=line, column=column, snippet=get_snippet(text.content, line), suggestion=said)


def _contains_finding(statement: SqlStatement, text: SqlText, finding: Finding) -> bool:
    """Return whether a finding is located within a statement."""
    if finding.line is None or finding.column is None:
        return False
    lines = text.content.split("\n", finding.line)[: finding.line - 1]
    at = sum(map(len, lines)) + len(lines) + finding.column - 1
    return any(token.start == at for token in statement.tokens)


def _examine_text(text: SqlText, policy: SqlPolicy) -> SqlFindings:
    if unfit := _find_unreadable(text, policy):
        return SqlFindings(syntax=apply_levels([unfit], policy))
    if commands := tuple(islice(find_shell_commands(text), FINDINGS)):
        return SqlFindings(syntax=commands)
    syntax: list[Finding] = []
    found: list[Finding] = []
    for statement in text.statements:
        try:
            said = chain(find_shell_functions(text, statement), _check_statement(text, statement, policy))
            found.extend(islice(said, max(FINDINGS - len(found), 1)))
        except tree.UnparsableStatement as problem:
            (syntax if problem.syntax else found).append(_parse_failure_finding(text, statement, problem))
    return SqlFindings(syntax=tuple(syntax[:FINDINGS]), rules=apply_levels(found[:FINDINGS], policy))


def _find_unreadable(text: SqlText, policy: SqlPolicy) -> Finding | None:
    """Return the finding about a fault that prevents parsing the text, or None."""
    size = len(text.content.encode())
    if size > policy.max_bytes:
        message = f"The step has {size} bytes of SQL; {policy.max_bytes} are allowed."
        return text.finding("sql.too_large", message, at=0, suggestion=_SPLIT_HINT)
    if text.broken is not None:
        message = f"unrecognized token: {text.broken}"
        suggestion = "Close every quote, and write only SQL."
        return text.finding("sql.syntax", message, at=text.broken.place, suggestion=suggestion)
    if not text.statements:
        suggestion = "Write a statement, or remove the step."
        return text.finding("sql.empty", "The step has no statement.", at=0, suggestion=suggestion)
    if len(text.statements) > policy.max_statements:
        message = f"The step has {len(text.statements)} statements; {policy.max_statements} are allowed."
        return text.finding("sql.too_large", message, at=0, suggestion=_SPLIT_HINT)
    if (count := tree.count_tokens(text.statements)) > tree.MAX_TOKENS:
        message = f"The step has {count} SQL tokens; {tree.MAX_TOKENS} are allowed."
        return text.finding("sql.too_large", message, at=0, suggestion=_SPLIT_HINT)
    return None


def _parse_failure_finding(
    text: SqlText, statement: SqlStatement, problem: tree.UnparsableStatement
) -> Finding:
    rule = "sql.syntax" if problem.syntax else "sql.not_understood"
    message = f"Statement {statement.number}: {problem}."
    word = problem.at.text[:40]
    suggestion = f"Look at and before `{word}` for a missing or extra comma, keyword, quote or parenthesis."
    finding = text.finding(rule, message, at=problem.at.start, suggestion=problem.suggestion or suggestion)
    if problem.instead is None:
        return finding
    token, new = problem.instead
    return replace(finding, edit=build_replace_token_edit(text.content, token, new))


def _check_statement(text: SqlText, statement: SqlStatement, policy: SqlPolicy) -> Iterator[Finding]:
    """Yield the faults of a statement's tokens or, if they have none, of its syntax tree.

    Raises: UnparsableStatement, if the statement can't be parsed.
    """
    if explained := statement.after("EXPLAIN", "QUERY", "PLAN") or statement.after("EXPLAIN"):
        place = statement.tokens.index(explained)
        statement = replace(statement, tokens=statement.tokens[place:])
    if statement.verb not in _KNOWN_VERBS:
        raise _build_unknown_verb_fault(statement)
    if (found := find_stray_token(statement)) is not None or (
        found := _find_misspelt_object(statement)
    ) is not None:
        raise found
    if statement.verb in tree.PARSED_VERBS:
        said = _check_words(text, statement, policy)
        yield from said or (
            ()
            if _is_checked_by_words(statement)
            else check_tree(text, statement, tree.parse_statement(statement))
        )
    else:
        yield from _check_words(text, statement, policy)


def _is_checked_by_words(statement: SqlStatement) -> bool:
    """Return whether only the words of a statement are checked, because it creates no plain table."""
    return statement.is_trigger or statement.after("CREATE", "VIRTUAL") is not None


def _check_words(text: SqlText, statement: SqlStatement, policy: SqlPolicy) -> Sequence[Finding]:
    """Return at most one finding: the first fault that a statement's words show."""
    complaints = (
        each for each in _find_faults(statement, policy) if policy.level(each[0]) is not RuleLevel.OFF
    )
    return [
        text.finding(rule, message, at=at, suggestion=suggestion)
        for rule, message, at, suggestion in islice(complaints, 1)
    ]


def _find_faults(statement: SqlStatement, policy: SqlPolicy) -> Iterator[tuple[str, str, int, str]]:
    """Yield the rule, message, offset and suggestion of each fault."""
    start, verb = statement.tokens[0].start, statement.verb
    yield from _find_call_faults(statement)
    if verb in rules.REFUSED:
        rule, message, suggestion = rules.REFUSED[verb]
        yield rule, f"{message}.", start, suggestion
    elif verb in rules.USELESS_VERBS:
        suggestion = f"Remove it; allowed statements: {', '.join(sorted(_ALLOWED_VERBS))}."
        yield "sql.statement", f"{verb} isn't allowed in a step.", start, suggestion
    elif statement.is_trigger:
        yield "sql.trigger", "CREATE TRIGGER isn't allowed.", start, "Do the same in a step."
    elif statement.after("CREATE", "VIRTUAL") is not None:
        yield from _find_virtual_table_faults(statement, start, policy)
    elif verb == "CREATE" and (replacing := _find_replace_conflict(statement)) is not None:
        rule, message, _ = rules.REFUSED["REPLACE"]
        yield (
            rule,
            f"ON CONFLICT {message}.",
            replacing.start,
            "Write ON CONFLICT IGNORE, or remove the clause.",
        )
    elif verb == "ALTER":
        yield from _find_alter_faults(statement)
    else:
        yield from _find_value_faults(statement, policy)


def _find_value_faults(statement: SqlStatement, policy: SqlPolicy) -> Iterator[tuple[str, str, int, str]]:
    """Yield the faults of `PRAGMA` statements and of placeholders."""
    start = statement.tokens[0].start
    if statement.verb == "PRAGMA" and (name := _find_refused_pragma(statement, policy)) is not None:
        hint = "Foreign keys are enforced. " if name == "foreign_keys" else ""
        suggestion = f"{hint}Remove it; allowed: {', '.join(sorted(rules.READ_PRAGMAS))}."
        rule = "sql.pragma_outside" if policy.admits("sql.pragma") else "sql.pragma"
        yield rule, f"PRAGMA {name[:40]} isn't allowed here.", start, suggestion
    for token in statement.tokens:
        if token.kind is SqlTokenKind.PARAMETER:
            message = f"{token.text[:40]} is a parameter, but no value is bound."
            yield "sql.parameter", message, token.start, "Write the value itself instead of the parameter."


def _find_misspelt_object(statement: SqlStatement) -> tree.UnparsableStatement | None:
    """Return the fault for a misspelled second word, as in ``ALTER TALBE``, or None for other words."""
    words = _OBJECTS_BY_VERB.get(statement.verb)
    if words is None or len(statement.tokens) < 2 or statement.tokens[1].is_any_of(*words, "OR"):
        return None
    second = statement.tokens[1]
    near = [word for word in words if is_misspelling(second.text.upper(), word)]
    if not near or not second.text.isascii():
        return None
    message = f'near "{second.text[:40]}": syntax error'
    new = near[0] if second.text.isupper() else near[0].lower()
    suggestion = f"Did you mean {near[0]}?"
    return tree.UnparsableStatement(
        message, at=second, syntax=True, suggestion=suggestion, instead=(second, new)
    )


def _build_unknown_verb_fault(statement: SqlStatement) -> tree.UnparsableStatement:
    """Return the fault for a statement whose first word SQLite doesn't know."""
    first = statement.tokens[0]
    near = find_close_names(statement.verb, _ALLOWED_VERBS)
    suggestion = f"Did you mean {near[0]}?" if near else "Begin with a statement of SQLite, such as SELECT."
    return tree.UnparsableStatement(
        f'near "{first.text[:40]}": syntax error', at=first, syntax=True, suggestion=suggestion
    )


def _find_alter_faults(statement: SqlStatement) -> Iterator[tuple[str, str, int, str]]:
    """Yield the fault of an `ALTER TABLE` that doesn't add a column."""
    if not _adds_column(statement):
        start = statement.tokens[0].start
        yield "sql.alter", "ALTER TABLE can only add columns.", start, "Write ALTER TABLE … ADD COLUMN …"


def _find_call_faults(statement: SqlStatement) -> Iterator[tuple[str, str, int, str]]:
    """Yield the faults of function calls in a statement that has no tree."""
    called = (
        _find_outside_call(statement)
        if statement.verb == "ALTER" or _is_checked_by_words(statement)
        else None
    )
    if called is not None:
        message = f"{called.text[:40]}() accesses data outside the database."
        yield "sql.function", message, called.start, "Remove it."


def _find_virtual_table_faults(
    statement: SqlStatement, start: int, policy: SqlPolicy
) -> Iterator[tuple[str, str, int, str]]:
    """Yield the faults of a virtual table, which depend on its module."""
    using = (later for token, later in pairwise(statement.tokens) if token.is_any_of("USING"))
    module = next(using, None)
    named = module.text.strip('"`[]').lower() if module is not None else ""
    suggestion = "Use a plain table, and LIKE or GLOB to search in it."
    if named in rules.SEARCH_MODULES:
        yield "sql.virtual_table", "CREATE VIRTUAL TABLE isn't allowed.", start, suggestion
    elif policy.admits("sql.virtual_table"):
        known = ", ".join(sorted(rules.SEARCH_MODULES))
        message = (
            f"A virtual table of {named[:40] or 'no module'} accesses data outside the database, "
            "or is unknown."
        )
        yield "sql.function", message, start, f"Use one of {known}."
    else:
        yield "sql.virtual_table", "CREATE VIRTUAL TABLE isn't allowed.", start, suggestion


def _find_outside_call(statement: SqlStatement) -> SqlToken | None:
    """Return the token of a function that accesses data outside the database, or None."""
    names = (token for token in statement.tokens if token.kind in {SqlTokenKind.WORD, SqlTokenKind.NAME})
    return next(
        (token for token in names if token.text.strip('"`[]').lower() in rules.EXTERNAL_FUNCTIONS), None
    )


def _find_replace_conflict(statement: SqlStatement) -> SqlToken | None:
    """Return the `REPLACE` of an ``ON CONFLICT REPLACE`` in a table's definition, or None."""
    tokens = statement.tokens
    found = (
        last
        for on, conflict, last in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if on.is_any_of("ON") and conflict.is_any_of("CONFLICT") and last.is_any_of("REPLACE")
    )
    return next(found, None)


def _adds_column(statement: SqlStatement) -> bool:
    """Return whether a statement is ``ALTER TABLE [schema.]name ADD …``."""
    tokens = statement.tokens
    place = 5 if len(tokens) > 3 and tokens[3].is_any_of(".") else 3
    return len(tokens) > place and tokens[place].is_any_of("ADD")


def _find_refused_pragma(statement: SqlStatement, policy: SqlPolicy) -> str | None:
    """Return the name in a rejected ``PRAGMA [schema.]name …`` statement, or None."""
    tokens = statement.tokens
    place = 3 if len(tokens) > 2 and tokens[2].is_any_of(".") else 1
    name = tokens[place].text.strip("\"'`[]").lower() if len(tokens) > place else ""
    sets = any(token.is_any_of("=") for token in tokens)
    if name == "foreign_keys" and (len(tokens) == place + 1 or _sets_permanent_value(tokens[place + 1 :])):
        return None
    if policy.admits("sql.pragma") and name in rules.SESSION_PRAGMAS:
        return None
    return name if sets or name not in rules.READ_PRAGMAS else None


def _sets_permanent_value(tokens: Sequence[SqlToken]) -> bool:
    """Return whether the value of `foreign_keys` is its permanent value: ``= ON`` or ``(1)``."""
    words = [token.text.strip("\"'").upper() for token in tokens if not token.is_any_of("=", "(", ")")]
    return len(words) == 1 and words[0] in {"1", "ON", "TRUE", "YES"}
