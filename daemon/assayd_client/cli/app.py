"""Defines the table of all `assay` commands, each of which is imported only when it is used.

To add a command, write a function (or a `typer.Typer` with functions) in plain typer style in a module of
this folder or of an optional package in `parts.PARTS`, and add a line to `COMMANDS`. The function's docstring
is the command's help. The function ends with `raise typer.Exit(CODE)` unless the exit code is 0. Slow imports
belong inside the function.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from assayd.errors import ConfigError
from assayd.kinds import registry
from assayd_client import AddressOptions
from assayd_client.cli import parts

COMMANDS: Mapping[str, str] = {
    "artifacts": "attempts:artifacts",
    "audit": "upkeep:show_audit",
    "backup": "upkeep:backup",
    "batch": "batch:batch_app",
    "cancel": "attempts:cancel",
    "check": "check:check",
    "compat": "assayd_compat.command:serve_compat",
    "console": "assayd_console.command:serve_console",
    "doctor": "upkeep:doctor",
    "evaluate": "evaluate:evaluate",
    "events": "attempts:events",
    "extractor": "extractor:extractor_app",
    "gc": "upkeep:collect_garbage",
    "generate": "generate:generate",
    "generation": "generate:generation_app",
    "images": "images_app:images_app",
    "keys": "assayd_attestation.commands:keys_app",
    "kinds": "kinds:kinds",
    "library": "library:library_app",
    "list": "attempts:list_attempts",
    "logs": "attempts:logs",
    "lsp": "assayd_lsp.command:serve_lsp",
    "mcp": "assayd_mcp.serving:serve",
    "metrics": "upkeep:metrics",
    "module": "module:module_app",
    "node": "gateway:node_app",
    "nodes": "gateway:list_nodes",
    "policy": "policy:policy_app",
    "repair": "repair:repair_app",
    "replay": "attempts:replay",
    "review": "assayd_screens.commands:review",
    "show": "attempts:show",
    "token": "gateway:token_app",
    "top": "assayd_screens.commands:top",
    "validate": "validate:validate",
    "verify": "assayd_attestation.commands:verify",
    "version": "upkeep:version",
    "workflow": "workflow:workflow_app",
}
"""The function or `typer.Typer` of each command, as ``module:name``.

The module is in this package, unless it begins with the name of an optional package.
"""

EXAMPLES: Mapping[str, str] = {
    "batch run": "submissions.jsonl --name nightly",
    "evaluate": "problems.jsonl samples.jsonl",
    "generate": "extractor 'the year' --sample-path /data/2024/Q1.csv",
    "library show": "quarter",
    "logs": "last",
    "policy explain": "extractor --python 'import os'",
    "repair start": "last --provider rules",
    "show": "last",
    "validate": "extractor quarter.py --sample-path /data/2024/Q1.csv",
    "workflow run": "flow.yaml",
}
"""Example arguments for the commands that are most often used incorrectly, by command."""

ADDRESS_OPTIONS: Mapping[str, tuple[str, str]] = {
    "--socket": ("PATH", "Connect to the daemon on this socket. Default: ASSAY_SOCKET."),
    "--server": ("URL", "Connect to the gateway at https://HOST[:PORT]. Default: ASSAY_SERVER."),
    "--token-file": (
        "FILE",
        "Authenticate to the gateway with the token in this file. Default: ASSAY_TOKEN_FILE.",
    ),
    "--ca-file": ("FILE", "Trust the gateway certificates in this file. Default: ASSAY_CA_FILE."),
}
"""Options that select the daemon; they are allowed at any position of a command line."""


class LazyGroup(TyperGroup):
    """A command group with the commands in the table and one command for each kind that has commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands in sorted order."""
        kinds = (
            kind
            for kind in (*registry.list_own_kinds(), *registry.list_external_kinds())
            if _has_commands(kind)
        )
        return sorted([*COMMANDS, *kinds])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return a command, or return None if no command has this name."""
        command: Any = self.commands.get(cmd_name)
        if command is None and (reference := _find_reference(cmd_name)):
            command = _build_command(cmd_name, reference)
            if cmd_name in COMMANDS:  # the settings decide whether a kind has commands
                self.commands[cmd_name] = command
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that a command line names, or suggest similar names for an unknown one."""
        if self.get_command(ctx, args[0]) is None:
            for name in self.list_commands(ctx):
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command of a command line, and add an example to errors in the arguments."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            command = error.ctx.command_path.partition(" ")[2] if error.ctx is not None else ""
            if command in EXAMPLES:
                error.message = f"{error.message or ''}\nExample: assay {command} {EXAMPLES[command]}"
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and the complete summaries of all commands."""
        rows = [(name, _read_command_summary(name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _build_address_option(option: str) -> Any:
    metavar, text = ADDRESS_OPTIONS[option]
    return typer.Option(option, metavar=metavar, help=text)


def _print_version(wanted: bool) -> None:
    if wanted:
        from assayd_client.cli.upkeep import version

        version()
        raise typer.Exit


@app.callback()
def start(
    context: typer.Context,
    socket: Annotated[str | None, _build_address_option("--socket")] = None,
    server: Annotated[str | None, _build_address_option("--server")] = None,
    token_file: Annotated[str | None, _build_address_option("--token-file")] = None,
    ca_file: Annotated[str | None, _build_address_option("--ca-file")] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_print_version,
            help="Print the client and daemon versions.",
        ),
    ] = False,
) -> None:
    """Validate untrusted code in throwaway containers."""
    named = AddressOptions(socket=socket, server=server, token_file=token_file, ca_file=ca_file)
    context.obj = None if named == AddressOptions() else named


def _find_reference(name: str) -> str:
    """Return the reference ``package.module:name`` to a command, or an empty string if it doesn't exist."""
    if name in COMMANDS:
        place = COMMANDS[name]
        return place if place.partition(".")[0] in parts.PARTS else f"{__package__}.{place}"
    from assayd_client.cli.kinds import get_command_line

    return get_command_line(name).commands


def _has_commands(kind: str) -> bool:
    try:
        return bool(registry.load_command_line(kind, (kind,)).commands)
    except ConfigError:  # a broken package must not break the help of all other commands
        return False


def _build_command(name: str, reference: str) -> Any:
    """Return the command that typer builds from a function or from a `typer.Typer`.

    If the package that implements the command isn't installed, return a command that reports this.
    """
    parent = typer.Typer(add_completion=False, rich_markup_mode=None)
    parent.callback()(_do_nothing)  # so that typer creates a group even for one command
    if (missing := parts.find_missing_part(reference)) is not None:
        _add_missing_command(parent, name, missing)
    else:
        found = _import_command(name, reference)
        if isinstance(found, typer.Typer):
            parent.add_typer(found, name=name)
        else:
            parent.command(name)(found)
    group: Any = typer.main.get_command(parent)
    return group.commands[name]


def _import_command(name: str, reference: str) -> Any:
    return pkgutil.resolve_name(reference) if name in COMMANDS else registry.import_reference(reference)


def _add_missing_command(parent: typer.Typer, name: str, package: str) -> None:
    """Add a command that accepts any arguments and reports that its package isn't installed."""
    any_words = {"allow_extra_args": True, "ignore_unknown_options": True}

    @parent.command(name, help=_summarize_missing_command(package), context_settings=any_words)
    def refuse() -> None:
        raise parts.build_missing_part_error(name, package)


def _summarize_missing_command(package: str) -> str:
    return f"Not installed: {parts.format_missing_part(package)}."


def _do_nothing() -> None:
    """Do nothing, as the callback that runs before a command."""


def _read_command_summary(name: str) -> str:
    """Return a command's summary from its source, because importing all modules would be slow."""
    offered = None if name in COMMANDS else registry.load_command_line(name, (name,))
    reference = _find_reference(name) if offered is None else offered.commands
    if (missing := parts.find_missing_part(reference)) is not None:
        return _summarize_missing_command(missing)
    if offered is not None:
        return offered.commands_help
    module, _, defined = reference.partition(":")
    spec = find_spec(module)
    source = Path(spec.origin).read_text(encoding="utf-8") if spec is not None and spec.origin else ""
    pattern = rf'^def {defined}\(.*?"""(.*?)(?:\n\n|""")|^{defined} = typer\.Typer\(.*?help="(.*?)"'
    found = re.search(pattern, source, re.DOTALL | re.MULTILINE)
    return " ".join(found[found.lastindex or 0].split()) if found is not None else ""
