"""Renders the contents of screens with rich. External text is inserted only as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

from assayd_client.cli.kinds import get_command_line
from assayd_client.cli.repair import iter_offer_lines
from assayd_client.cli.report import iter_report_lines
from assayd_client.cli.screens.session import ChainOutcome, list_submitted_texts
from assayd_client.cli.terminal import StyledLine, plain

SHOWN_WIDTH = 76
"""Columns of a source line in a report: what the narrowest terminal leaves."""
LEXERS = {".py": "python", ".sh": "bash", ".sql": "sql", ".json": "json"}


def to_rich_text(lines: Iterable[StyledLine]) -> Text:
    """Return the lines of a report as a single Rich text."""
    rows = [Text.assemble(*((part, style) for part, style in each.parts)) for each in lines]
    return Text("\n").join(rows)


def iter_highlighted_code(outcome: ChainOutcome) -> Iterator[RenderableType]:
    """Return each submitted text with highlighting and line numbers."""
    kind = outcome.submission["kind"] if outcome.submission is not None else ""
    for name, text in list_submitted_texts(outcome).items():
        suffix = name[name.rfind(".") :] if "." in name else ""
        lexer = LEXERS.get(suffix, "text") if name else get_command_line(kind).language
        yield Rule(Text(plain(name) or "Code"), align="left", style="dim")
        yield Syntax(
            plain(text.rstrip("\n")),
            lexer,
            theme="ansi_dark",
            line_numbers=True,
            word_wrap=True,
            background_color="default",
        )


def render_outcome(outcome: ChainOutcome) -> RenderableType:
    """Return the content of an outcome, with report, code, change and offer."""
    parts: list[RenderableType] = []
    if outcome.told:
        parts.append(Text(plain(outcome.told)))
    if outcome.attempt is not None:
        parts.append(to_rich_text(iter_report_lines(outcome.attempt, width=SHOWN_WIDTH, verdict_last=False)))
    else:
        parts.append(Text("No answer contained a submission."))
    parts += iter_highlighted_code(outcome)
    if outcome.diff:
        parts += [Rule(Text("Changed by the last answer"), align="left", style="dim")]
        parts += [
            Syntax(plain(outcome.diff), "diff", theme="ansi_dark", word_wrap=True, background_color="default")
        ]
    if outcome.offer is not None:
        parts.append(Text("\n".join(plain(each) for each in iter_offer_lines(*outcome.offer))))
    return Group(*parts)
