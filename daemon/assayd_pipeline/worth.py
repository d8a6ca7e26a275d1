"""Finds pipelines that pass but whose results are of little use. Source: docs/quality.md.

    data/found.csv is empty, and its input has rows     quality.empty_output
    UPDATE orders … changes none of the rows            quality.no_rows
    a step writes tmp/sorted.csv, which is never read   quality.unused_result

An analysis worker finds the names in steps (`read_steps`), so judging only uses the results and parses
nothing.

Also reports errors that bash or a tool printed although the step passed.

    scripts/01_a.sh: line 2: [: amount: integer expression expected     step.ignored_error at line 2
    grep: *.csv: No such file or directory                              at the only line that calls grep

A profile sets the severity of these findings (`commands.ignored_errors`). With the value `uncaught`, the
line of the step must show that `set -e` with `pipefail` would have ended the step. Uncertain cases are
warnings: conditions, lists with `||` or `&&`, substitutions inside arguments, functions, and unknown lines.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from pydantic import BaseModel, ConfigDict

from assayd.findings.source_text import get_snippet, line_number_at
from assayd.model.finding import Finding, Layer, Rule, Severity
from assayd.model.policy import IgnoredErrorSeverity
from assayd.model.run import DATABASE_OUTPUT, OutputFile, RunResult
from assayd.model.text_limits import shorten_text
from assayd_pipeline.errors import ErrorClass, ErrorSource, classify_error
from assayd_pipeline.judging import StepText, explain_message, is_known
from assayd_pipeline.sql_record import IdleStatement

RULES = (
    Rule(
        id="quality.empty_output",
        title="An output lost all rows of its input",
        severity=Severity.WARNING,
        help="Bad: grep nowhere data/sales.csv > data/found.csv || true.",
    ),
    Rule(
        id="quality.no_rows",
        title="A statement changes no row",
        severity=Severity.WARNING,
        help="Bad: UPDATE orders SET total = 0 WHERE status = 'Paid', if the status is 'paid'.",
    ),
    Rule(
        id="quality.unused_result",
        title="A step's results are never used",
        severity=Severity.WARNING,
        help="Bad: sort data/a.csv > tmp/b.csv, and no later step reads tmp/b.csv.",
    ),
)
_MAX_EACH_FINDINGS = 10
_MOST_PATHS = 50
_READ_CHARS = 100_000
"""Maximum characters of a step to read: longer ones are generated and tell little."""
_MAX_EMPTY_BYTES = 4096
_WRITTEN_PATTERN = re.compile(
    r"(?:>>?\|?|\btee(?: -a)?|\s-o|--output[= ])\s*[\"']?"
    r"((?:\./|/sandbox/)?(?:tmp|data)/[\w./-]+|/tmp/[\w./-]+)"
)
_OTHER_WRITES = re.compile(
    r"\b(?:cp|mv|ln|install|split|csplit|tar|gzip|gunzip|unzip|mkdir|touch|truncate|dd|rm|patch|xargs)\b"
    r"|\bsed +(?:-\w*i|--in-place)|\bdata/[\w./-]*\$|>>?\s*[\"']?\$"
)
_TOUCHED_PATTERN = re.compile(r"\btouch\b([^\n;|&]*)")
_CLEARED_PATTERN = re.compile(r"(?:^|[;\n])[ \t]*:?[ \t]*>[ \t]*([^\s;|&]+)")
_WHOLE_FOLDER = re.compile(r"\btmp(?:/?[\"']?(?:\s|$|\*|\))|/[\w.-]*[*?\[$])")
_OFTEN_EMPTY = re.compile(
    r"rej|bad|err|inval|fail|warn|diff|missing|dup|orphan|anomal|outlier|skip|lock|done|ready|ok|flag|log|unmatched"
    r"|mismatch|suspicious|violation|broken|issue|problem|conflict|empty|removed|deleted|change|alert",
    re.IGNORECASE,
)
"""Names of files that list faults in data, for which an empty file is a good sign."""

IGNORED_ERROR = Rule(
    id="step.ignored_error",
    profile_key="commands.ignored_errors",
    title="The step ignored an error",
    severity=Severity.WARNING,
    help="Bad: n=$(grep -c x tmp/nothere). Good: set -euo pipefail at the top of the step.",
)
_MAX_LINES = 500
_MAX_READ = 60
"""Maximum distinct lines of a step to look up, because a submitter controls them."""
_MAX_FINDINGS = 5
MAX_EXPLAINED_ERRORS = 20
"""Maximum ignored errors of a run to explain."""
_SCRIPT = re.compile(r"scripts/[^:]*: line \d{1,6}: ")
_SOURCE = re.compile(r"scripts/[^:]*: line \d{1,6}: |([a-z][a-z0-9]{0,20}): ")
_HARMLESS = re.compile(r"\bwarning: |[Bb]roken pipe|write error|[Tt]ry '|\busage: ")
_HANDLED_PATTERN = re.compile(
    r"\|\||&&|&\s*$|^\s*(?:if|elif|while|until|!|local|export|declare|readonly|typeset|case)\b|^\s*!|[<>]\(|`"
)
_ANYWHERE_PATTERN = re.compile(
    r"^[ \t]*+(?:\}|\)|done|fi|esac)[^#\n]*(?:\|\||&&|&\s*$)|\bset \+e\b|\bset \+o errexit\b"
    r"|\btrap\b[^\n]{0,200}\bERR\b",
    re.MULTILINE,
)
_FUNCTION = re.compile(r"^[ \t]*+(?:function\s+[\w-]+|[\w-]++\s*+\(\s*+\))", re.MULTILINE)
_ASSIGNMENT = re.compile(r"\s*\w+=\"?\$\(")


class StepFileFacts(BaseModel):
    """The facts about a pipeline's steps and files with which its results are judged.

    `full` contains the submitted files with more than a heading, each with its first line; `source` is the
    first of these files that a step names. `made_empty` contains files that a step intentionally creates
    empty; `unused` contains the numbers of steps that write a file which is never read.
    """

    model_config = ConfigDict(frozen=True)

    full: dict[str, str] = {}
    source: dict[int, str] = {}
    made_empty: frozenset[str] = frozenset()
    written_by: dict[str, int] = {}
    unused: dict[int, str] = {}


def read_steps(steps: Sequence[StepText], files: Mapping[str, bytes]) -> StepFileFacts:
    """Return the files that steps name. Runs in an analysis worker, and needs the files' first bytes."""
    texts = [step.content[:_READ_CHARS] for step in steps]
    named = "\n".join(texts)
    full = {
        path: shorten_text(content[: content.find(b"\n")].decode("utf-8", "replace"), 500)
        for path, content in islice(files.items(), _MOST_PATHS)
        if _has_rows(content) and (path in named or path.rpartition("/")[2] in named or "*" in named)
    }
    written: dict[str, int] = {}
    for step, text in zip(steps, texts, strict=True):
        if step.program is ErrorSource.BASH:
            written |= dict.fromkeys(_find_written_paths(text), step.number)
    emptied = [
        *_CLEARED_PATTERN.findall(named),
        *(path for words in _TOUCHED_PATTERN.findall(named) for path in words.split()),
    ]
    made_empty = frozenset(_to_relative_path(path.strip("\"'")) for path in emptied[:_MOST_PATHS])
    return StepFileFacts(
        full=full,
        source={
            step.number: path
            for step, text in zip(steps, texts, strict=True)
            if (path := next((each for each in full if each in text), None)) is not None
        },
        made_empty=made_empty,
        written_by=written,
        unused=dict(_find_unused_steps(steps, texts)),
    )


def _has_rows(content: bytes) -> bool:
    """Return whether a file has several lines or is a JSON document, and not only a heading."""
    head = content.strip()
    return b"\n" in head or head[:1] in (b"[", b"{")


def _find_written_paths(text: str) -> list[str]:
    return list(
        islice(dict.fromkeys(_to_relative_path(path) for path in _WRITTEN_PATTERN.findall(text)), _MOST_PATHS)
    )


def _to_relative_path(path: str) -> str:
    return path.removeprefix("./").removeprefix("/sandbox").removeprefix("/")


def _find_unused_steps(steps: Sequence[StepText], texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the number and first path of each step that writes only temporary files unused by later steps."""
    for place, (step, text) in enumerate(zip(steps, texts, strict=True)):
        if step.program is not ErrorSource.BASH or _OTHER_WRITES.search(text):
            continue
        paths = _find_written_paths(text)
        if not paths or any(not path.startswith("tmp/") for path in paths):
            continue
        later = "\n".join(texts[place + 1 :])
        named = any(path.rpartition("/")[2].partition(".")[0] in later for path in paths)
        if not named and not _WHOLE_FOLDER.search(later):
            yield step.number, paths[0]


def judge_results(
    steps: Sequence[StepText], read: StepFileFacts, printed: Sequence[bool], result: RunResult
) -> Iterator[Finding]:
    """Yield findings about the results of a run in which all steps passed.

    Args:
        steps: the steps of the pipeline.
        read: the names in the steps.
        printed: whether each step printed anything.
        result: the result of the run.
    """
    outputs = [one for one in result.outputs if one.name != DATABASE_OUTPUT]
    yield from islice(_find_empty_outputs(steps, read, outputs), _MAX_EACH_FINDINGS)
    for step, said in zip(steps, printed, strict=True):
        path = read.unused.get(step.number)
        if path is not None and not said:
            message = f"No later step reads {path}, and the step leaves nothing else."
            hint = "Use the file in a later step, write the result below data/, or remove the step."
            yield _build_quality_finding("unused_result", step, message, hint, _find_line(step, path))


def _find_empty_outputs(
    steps: Sequence[StepText], read: StepFileFacts, outputs: Sequence[OutputFile]
) -> Iterator[Finding]:
    """Yield the files without rows that a step created, if any input of the pipeline has rows."""
    by_number = {step.number: step for step in steps}
    for output in outputs:
        step = by_number.get(read.written_by.get(output.name, 0))
        name = output.name.rpartition("/")[2]
        if step is None or len(output.content) > _MAX_EMPTY_BYTES or _OFTEN_EMPTY.search(name):
            continue
        if output.name in read.made_empty or output.name in read.full or not read.full:
            continue
        kind = _describe_empty_output(output, read.full.values())
        if kind:
            source = read.source.get(step.number) or next(iter(read.full))
            message = f"{output.name} {kind}, but {source} has rows."
            hint = "Compare the condition with the data: case, separators, column number."
            yield _build_quality_finding("empty_output", step, message, hint, _find_line(step, output.name))


def _describe_empty_output(output: OutputFile, headings: Collection[str]) -> str:
    """Return a description of an output that is empty or has only a heading, or an empty string."""
    content = output.content.strip()
    if not content or content in (b"[]", b"{}", b"null"):
        return "is empty"
    if b"\n" in content:
        return ""
    line = content.decode("utf-8", "replace")
    cells = re.split(r"[,;\t]", line) if output.name.endswith((".csv", ".tsv")) else []
    heading = len(cells) > 1 and all(re.fullmatch(r"[^\d]*", cell) and cell.strip() for cell in cells)
    return "has only a header line" if line in headings or heading else ""


def iter_idle_findings(step: StepText, idle: Sequence[IdleStatement]) -> Iterator[Finding]:
    """Yield findings about the statements of a step that changed no rows although there were rows."""
    for one in idle[:_MAX_EACH_FINDINGS]:
        message = f"{one.verb} {one.table!r} changes no row."
        if one.verb == "CREATE TABLE":
            message = f"CREATE TABLE {one.table!r} gets no row from its SELECT."
        if one.verb in {"INSERT", "CREATE TABLE"}:
            hint = "Compare the condition with the rows: the SELECT matches none."
        else:
            hint = "Compare the WHERE condition with the values in the table: case, spaces, types."
        yield _build_quality_finding("no_rows", step, message, hint, one.line)


def _find_line(step: StepText, path: str) -> int | None:
    place = step.content.find(path)
    return None if place < 0 else line_number_at(step.content, place)


def _build_quality_finding(name: str, step: StepText, message: str, hint: str, line: int | None) -> Finding:
    shown = get_snippet(step.content, line)
    return Finding(
        rule=f"quality.{name}",
        category="quality",
        message=f"{step.label}: {message}",
        severity=Severity.WARNING,
        layer=Layer.RUNTIME,
        file=step.name,
        line=line if shown is not None else None,
        snippet=shown,
        suggestion=hint,
        context=step.label,
    )


def iter_ignored_errors(step: StepText, stderr: str, level: IgnoredErrorSeverity | None) -> Iterator[Finding]:
    """Yield a finding for each error message that a bash step printed although it passed, up to a limit.

    Yield nothing for a SQL step, or if the level is off.
    """
    level = level or IgnoredErrorSeverity.WARNING
    if step.program is not ErrorSource.BASH or level is IgnoredErrorSeverity.OFF or not stderr:
        return
    lines = dict.fromkeys(line.strip() for line in stderr.splitlines()[:_MAX_LINES])
    printed = (said for said in lines if _is_program_output(said, step.content))
    errors = (said for said in islice(printed, _MAX_READ) if _is_error_message(said))
    for said in islice(errors, _MAX_FINDINGS):
        yield _build_ignored_error_finding(step, said, level)


def _is_program_output(said: str, content: str) -> bool:
    """Return whether bash or a called program probably printed a line that isn't a harmless warning."""
    source = _SOURCE.match(said)
    if source is None or _HARMLESS.search(said):
        return False
    return source[1] is None or re.search(rf"\b{source[1]}\b", content) is not None


def _is_error_message(said: str) -> bool:
    return (
        is_known(said) or classify_error(said, program=ErrorSource.BASH).error_class is not ErrorClass.UNKNOWN
    )


def _build_ignored_error_finding(step: StepText, said: str, level: IgnoredErrorSeverity) -> Finding:
    told = explain_message(said, step.content)
    uncaught = (
        level is IgnoredErrorSeverity.UNCAUGHT
        and told.line is not None
        and _would_end_step(step.content, told.line)
    )
    is_error = level is IgnoredErrorSeverity.ERROR or uncaught
    hint = told.hint or classify_error(said, program=ErrorSource.BASH).advice
    shown = get_snippet(step.content, told.line)
    return Finding(
        rule=IGNORED_ERROR.id,
        category=classify_error(said, program=ErrorSource.BASH).error_class,
        message=shorten_text(f"{step.label}: The step ignored an error: {_SCRIPT.sub('', said)}."),
        severity=Severity.ERROR if is_error else Severity.WARNING,
        layer=Layer.RUNTIME,
        file=step.name,
        line=told.line if shown is not None else None,
        snippet=shown,
        suggestion=hint,
        edit=told.edit,
        context=step.label,
    )


def _would_end_step(content: str, line: int) -> bool:
    """Return whether `set -e` with `pipefail` would certainly have ended a step at a line."""
    lines = content.split("\n")
    first = last = line - 1
    while first > 0 and re.search(r"(?:\\|\||&&)\s*$", lines[first - 1]):
        first -= 1
    while last < len(lines) - 1 and re.search(r"(?:\\|\||&&)\s*$", lines[last]):
        last += 1
    whole = "\n".join(lines[first : last + 1])
    if any(_HANDLED_PATTERN.search(each) for each in lines[first : last + 1]) or _ANYWHERE_PATTERN.search(
        content
    ):
        return False
    if "$(" in whole and not _ASSIGNMENT.match(whole):
        return False
    return not (_FUNCTION.search(content) and lines[first][:1] in {" ", "\t"})
