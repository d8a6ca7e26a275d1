"""Writes the reference pages of the documentation site from the code: rules, settings, commands.

python deploy/reference.py FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer.main

from assayd.kinds import registry
from assayd.settings import iter_documented_settings
from assayd_client.cli.app import app


def write(folder: Path) -> None:
    """Write all reference pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in (("rules", _rules()), ("settings", _settings()), ("commands", _commands())):
        (folder / f"{name}.md").write_text("\n".join(lines) + "\n")


def _rules() -> Iterator[str]:
    yield from ("# Rules", "", "All rules by kind. `GET /v1/kinds/KIND` returns the same.")
    for kind in sorted(registry.list_own_kinds()):
        rows = (
            (f"`{rule.id}`", rule.severity, rule.title, rule.help)
            for rule in registry.load_own_validator(kind).rules
        )
        yield from ("", f"## {kind}", "", *_table(("rule", "severity", "title", "example or advice"), rows))


def _settings() -> Iterator[str]:
    yield from ("# Settings", "", "`assayd --sample-config` prints the same as a settings file.", "")
    rows = ((f"`{name}`", f"`{value}`", text) for name, _, value, text in iter_documented_settings())
    yield from _table(("setting", "default", "meaning"), rows)


def _commands() -> Iterator[str]:
    root: Any = typer.main.get_command(app)
    yield from ("# Commands", "", "Every command of `assay` with its parameters, as `--help` shows them.")
    yield from _command("assay", root)


def _command(name: str, command: Any) -> Iterator[str]:
    yield from ("", f"## {name}", "", command.help or command.short_help or "")
    rows = [
        (f"`{' '.join(one.opts) if one.param_type_name == 'option' else one.human_readable_name}`", one.help)
        for one in command.params
        if getattr(one, "help", None)
    ]
    if rows:
        yield from ("", *_table(("parameter", "meaning"), rows))
    if hasattr(command, "list_commands"):
        context = command.make_context(name, [], resilient_parsing=True)
        for below in command.list_commands(context):
            yield from _command(f"{name} {below}", command.get_command(context, below))


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "| --- " * len(heads) + "|"
    for row in rows:
        yield f"| {' | '.join(_cell(str(cell)) for cell in row)} |"


def _cell(text: str) -> str:
    plain = " ".join(text.split())
    return (
        plain.replace("|", "\\|").replace("<", "&lt;")
        if not plain.startswith("`")
        else plain.replace("|", "\\|")
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
