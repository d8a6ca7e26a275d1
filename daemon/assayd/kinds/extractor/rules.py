r"""Extraction rules as YAML, and their results for a path. Pure.

    extract:
      client_id:
        from: segment(-4)         # /data/CLIENT-ABC/2024/Q1/report.csv: CLIENT-ABC
        pattern: CLIENT-(.*)      # the whole segment must match; the group is taken
      year:
        from: segment(-3)
        type: integer
    notes:
      start_month: 'NOTE: …'

An extractor consists of Python code or such rules. A container runs rules as the Python code that
`render_python` returns, because a pattern can backtrack. Source: docs/kinds/extractor.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from yaml.composer import ComposerError

from assayd.model.finding import Finding, Rule
from assayd.model.text_limits import shorten_text
from assayd.static.python import source as python_source

INTEGER_DIGITS = 18
MAX_PATTERN_CHARS = 512
MAX_RULES_CHARS = 64 * 2**10
"""Maximum characters of rules, because parsing YAML is slow."""
MAX_FIELDS = 200
_MAX_FINDINGS = 20
_FENCES = ("```yaml", "```yml")

INVALID_RULE = Rule(
    id="rules.invalid",
    title="The extraction rules are invalid",
    help="Bad: `from: segment(1)`. Good: `from: segment(-1)`, which counts from the path's end.",
)
_HINT = (
    "Write each field as `NAME: {from: segment(-N), pattern: TEXT(.*), type: integer}`. The keys `pattern` "
    "and `type` are optional."
)

PYTHON_HEADER = "# Generated from extraction rules."
_PYTHON_TEMPLATE = """
def extract(path: str) -> dict:
    parts = [part for part in path.split("/") if part]
    fields = {}
    for name, (place, pattern, is_integer) in RULES.items():
        if -place > len(parts):
            continue
        text = parts[place]
        if pattern is not None:
            found = pattern.fullmatch(text)
            if found is None or found[1] is None:
                continue
            text = found[1]
        if not is_integer:
            fields[name] = text
        elif text.isascii() and text.isdigit() and len(text) <= INTEGER_DIGITS:
            fields[name] = int(text)
    return fields
"""


class _PlainLoader(yaml.SafeLoader):
    """A loader of plain YAML, without tags (which can crash SafeLoader), merge keys and aliases."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node. Raises: ComposerError, if it isn't plain YAML."""
        event: yaml.NodeEvent = self.peek_event()  # type: ignore[no-untyped-call]
        merges = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]
        for found, what in (
            (isinstance(event, yaml.AliasEvent), "aliases"),
            (getattr(event, "tag", None) is not None, "tags"),
            (merges, "merge keys"),
        ):
            if found:
                mark = event.start_mark
                raise ComposerError(None, None, f"{what} aren't allowed", mark)  # type: ignore[arg-type]
        return super().compose_node(parent, index)


class Type(StrEnum):
    """The type to which a field's text is converted."""

    STRING = "string"
    """Unchanged text."""
    INTEGER = "integer"
    """Decimal digits."""


def _check_single_group(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except re.error as problem:
        raise ValueError(f"not a valid regular expression: {problem}") from problem
    if groups != 1:
        raise ValueError(f"it has {groups} groups; exactly one must mark the extracted part")
    return pattern


class FieldRule(BaseModel):
    """The rule of a field, which selects a path segment counted from the end of the path."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    source: str = Field(alias="from", pattern=r"^segment\(-[1-9][0-9]?\)$")
    pattern: (
        Annotated[str, Field(max_length=MAX_PATTERN_CHARS), AfterValidator(_check_single_group)] | None
    ) = None
    type: Type = Type.STRING

    @property
    def place(self) -> int:
        """Return the index of the segment in a path."""
        return int(self.source.removeprefix("segment(").removesuffix(")"))


class RuleSet(BaseModel):
    """A set of rules, keyed by field, with notes about fields that have no rule."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    extract: Annotated[dict[str, FieldRule], Field(max_length=MAX_FIELDS)]
    notes: dict[str, str] = {}


def split_path(path: str) -> list[str]:
    """Split a path: ``/data/2024/a.csv`` -> ``["data", "2024", "a.csv"]``."""
    return [part for part in path.split("/") if part]


def extract_field(rule: FieldRule, path: str) -> str | int | None:
    """Return the value of a field in a path, or None if the rule doesn't match the path."""
    parts = split_path(path)
    if -rule.place > len(parts):
        return None
    text = parts[rule.place]
    if rule.pattern is not None:
        found = re.fullmatch(rule.pattern, text)
        if found is None or found[1] is None:
            return None
        text = found[1]
    if rule.type is Type.STRING:
        return text
    return int(text) if text.isascii() and text.isdigit() and len(text) <= INTEGER_DIGITS else None


def apply_rules(rules: RuleSet, path: str) -> tuple[Mapping[str, str | int], tuple[str, ...]]:
    """Return the fields of a path, and the names of the fields whose rules don't match the path."""
    taken = {name: extract_field(rule, path) for name, rule in rules.extract.items()}
    fields = {name: value for name, value in taken.items() if value is not None}
    return fields, tuple(name for name, value in taken.items() if value is None)


def render_rules(rules: RuleSet) -> str:
    """Return the rules as YAML in ASCII, so that any terminal can display them."""
    document = rules.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return yaml.safe_dump({"extract": {}, **document}, sort_keys=False, width=100)


def parse_rules(text: str) -> RuleSet:
    """Parse extraction rules from YAML. Raises: ValueError, if they are invalid."""
    try:
        return RuleSet.model_validate(yaml.load(text, Loader=_PlainLoader))  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as problem:
        raise ValueError(f"invalid extraction rules: {problem}") from problem


def extract_rules_text(code: str) -> str | None:
    """Return the rules in an answer, which can be in a YAML block, or None if the answer has no rules."""
    text = code.lstrip("\ufeff").replace("\r\n", "\n")
    if _starts_like_rules(text):
        return text
    lines = text.split("\n")
    begin = next((number for number, line in enumerate(lines) if line.strip() in _FENCES), None)
    if begin is None:
        return None
    rest = lines[begin + 1 :]
    end = next((number for number, line in enumerate(rest) if line.strip() == "```"), len(rest))
    block = "\n".join(rest[:end]) + "\n"
    # The docstring of a Python file may quote rules.
    return block if _starts_like_rules(block) and python_source.parse_source(text).tree is None else None


def check_rules(text: str) -> Iterator[Finding]:
    """Yield findings about invalid rules: ``from: segment(1)`` -> rules.invalid."""
    if len(text) > MAX_RULES_CHARS:
        yield _build_invalid_rules_finding(
            f"The rules have {len(text)} characters; the limit is {MAX_RULES_CHARS}.", 1
        )
        return
    try:
        node = yaml.compose(text, Loader=_PlainLoader)
        rules = RuleSet.model_validate(yaml.load(text, Loader=_PlainLoader))  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark is not None else 1
        yield _build_invalid_rules_finding(f"The rules aren't valid YAML: {problem.problem}.", line)
    except (yaml.YAMLError, RecursionError, ValueError) as problem:
        if not isinstance(problem, ValidationError):
            yield _build_invalid_rules_finding(
                f"The rules aren't valid YAML: {shorten_text(str(problem), 200)}.", 1
            )
            return
        for fault in problem.errors()[:_MAX_FINDINGS]:
            place = ".".join(str(part) for part in fault["loc"])
            yield _build_invalid_rules_finding(
                f"{shorten_text(place, 100)}: {shorten_text(fault['msg'], 300)}.",
                _find_line(node, fault["loc"]),
            )
    else:
        if not rules.extract:
            yield _build_invalid_rules_finding("The rules name no field.", 1)


def render_python(text: str) -> str:
    """Return Python code that extracts the same fields as the given rules, which must be valid."""
    rules = parse_rules(text).extract
    patterns = {
        name: "None" if rule.pattern is None else f"re.compile({rule.pattern!r})"
        for name, rule in rules.items()
    }
    table = [
        f"    {name!r}: ({rule.place}, {patterns[name]}, {rule.type is Type.INTEGER}),"
        for name, rule in rules.items()
    ]
    imports = ["import re", ""] if any(rule.pattern is not None for rule in rules.values()) else []
    head = [PYTHON_HEADER, *imports, f"INTEGER_DIGITS = {INTEGER_DIGITS}", "RULES = {", *table, "}"]
    return "\n".join(head) + "\n" + _PYTHON_TEMPLATE


def _starts_like_rules(text: str) -> bool:
    """Return whether the first line that isn't a comment is a top-level key of rules."""
    for line in text.split("\n"):
        if line.strip() and not line.startswith(("#", "---")):
            return line.partition("#")[0].rstrip() in {"extract:", "notes:", "extract: {}"}
    return False


def _find_line(node: yaml.Node | None, place: tuple[int | str, ...]) -> int:
    """Return the 1-based line of the deepest existing key on the key path `place`."""
    line = 1
    for part in place:
        if not isinstance(node, yaml.MappingNode):
            break
        found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line


def _build_invalid_rules_finding(message: str, line: int) -> Finding:
    return Finding(
        rule=INVALID_RULE.id, category="syntax", message=shorten_text(message), line=line, suggestion=_HINT
    )
