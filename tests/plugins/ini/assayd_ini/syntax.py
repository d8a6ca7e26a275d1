"""The static stage: every line is a section, a field, a comment or blank, and nothing is there twice.

[server           -> ini.section
port 8080         -> ini.no_value, with the edit ``port = 8080``
port = 1 (twice)  -> ini.twice
"""

from __future__ import annotations

from collections.abc import Iterator

from assayd.model.finding import Edit, Finding, Rule

RULES = (
    Rule(id="ini.section", title="A section that is not closed", help="Bad: [server. Good: [server]."),
    Rule(id="ini.no_value", title="A line without a value", help="Bad: port 8080. Good: port = 8080."),
    Rule(id="ini.no_section", title="A field before the first section", help="Write [section] above it."),
    Rule(id="ini.twice", title="A field that is there twice", help="Keep one of the two."),
)


def check_lines(text: str) -> Iterator[Finding]:
    """Return the findings for the lines of a file."""
    section, seen = None, set()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        if stripped.startswith("["):
            section = stripped.strip("[]")
            if not stripped.endswith("]"):
                yield _finding("ini.section", number, line, "The section is not closed.", f"[{section}]")
            continue
        name, equals, _ = stripped.partition("=")
        if not equals:
            key, *value = stripped.split(maxsplit=1)
            fixed = f"{key} = {value[0]}" if value else None
            yield _finding("ini.no_value", number, line, f"{key[:80]!a} has no value.", fixed)
        elif section is None:
            yield _finding("ini.no_section", number, line, f"{name.strip()[:80]!a} is in no section.", None)
        elif (section, name.strip()) in seen:
            yield _finding("ini.twice", number, line, f"{name.strip()[:80]!a} is there twice.", None)
        seen.add((section, name.strip()))


def _finding(rule: str, number: int, line: str, message: str, fixed: str | None) -> Finding:
    return Finding(
        rule=rule,
        category="syntax",
        message=message,
        line=number,
        snippet=line[:200],
        suggestion="Write key = value in a [section], once." if fixed is None else f"Write {fixed[:200]}",
        edit=None if fixed is None else Edit(start_line=number, end_line=number, replacement=fixed),
    )
