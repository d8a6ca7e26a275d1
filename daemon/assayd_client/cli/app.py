"""The commands of `assay` as typer has them: the verbs of the table, groups, and those of kinds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from assayd.kinds import registry
from assayd_client import AddressOptions
from assayd_client.cli.quick import SUMMARY, help_text
from assayd_client.cli.verb import ADDRESS_OPTIONS, TYPES, CommandVerb, Parameter
from assayd_client.cli.verbs import GROUPS, TYPED, VERBS


class ProgramCommands(TyperGroup):
    """The program's commands, and after them one for each kind that has commands of its own."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; that of a kind is imported only when the line names it."""
        return super().get_command(ctx, cmd_name) or _commands_of(cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those of our own kinds included."""
        own = [kind for kind in registry.own_kinds() if registry.command_line(kind).commands]
        return [*super().list_commands(ctx), *own]

    def get_help(self, ctx: Any) -> str:
        """Return the help of the program; there is one text of it."""
        return help_text().rstrip("\n")


app = typer.Typer(
    cls=ProgramCommands,
    help=SUMMARY,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _address_option(option: str) -> Any:
    metavar, text = ADDRESS_OPTIONS[option]
    return typer.Option(option, metavar=metavar, help=text)


@app.callback()
def start(
    context: typer.Context,
    socket: Annotated[str | None, _address_option("--socket")] = None,
    server: Annotated[str | None, _address_option("--server")] = None,
    token_file: Annotated[str | None, _address_option("--token-file")] = None,
    ca_file: Annotated[str | None, _address_option("--ca-file")] = None,
) -> None:
    """Validate untrusted code in throwaway containers."""
    named = AddressOptions(socket=socket, server=server, token_file=token_file, ca_file=ca_file)
    context.obj = None if named == AddressOptions() else named


def command_of(verb: CommandVerb) -> Callable[..., None]:
    """Return a function that typer takes for the command that a verb is."""

    def command(context: typer.Context, **values: Any) -> None:
        raise typer.Exit(verb.call(context.find_root().obj, values))

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(each.name, kind, default=_default(each), annotation=_annotation(each))
        for each in verb.parameters
    ]
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    described = cast("Any", command)
    described.__signature__ = inspect.Signature([context, *parameters])
    described.__annotations__ = {each.name: each.annotation for each in (context, *parameters)}
    described.__doc__ = verb.help
    return command


def _default(parameter: Parameter) -> object:
    return inspect.Parameter.empty if parameter.required else parameter.default


def _annotation(parameter: Parameter) -> object:
    shown: dict[str, Any] = {"help": parameter.help}
    if parameter.metavar:
        shown["metavar"] = parameter.metavar
    if parameter.is_flag:
        return Annotated[bool, typer.Option(parameter.option, **shown)]
    if parameter.least is not None:
        shown |= {"min": parameter.least, "max": parameter.most}
    one: Any = TYPES[parameter.type]
    kind = list[one] if parameter.many else one
    if not parameter.required and parameter.default is None:
        kind = kind | None
    if parameter.option:
        return Annotated[kind, typer.Option(parameter.option, **shown)]
    return Annotated[kind, typer.Argument(**shown)]


def _commands_of(kind: str) -> object:
    """Return the commands of a kind; None for what is no kind, or one without."""
    from assayd_client.cli.kinds import command_line_of

    reference = command_line_of(kind).commands
    return typer.main.get_command(cast("typer.Typer", registry.resolve(reference))) if reference else None


for _verb in VERBS:
    app.command(_verb.name)(command_of(_verb))
for _name, (_reference, _summary) in GROUPS.items():
    app.add_typer(cast("typer.Typer", registry.resolve(_reference)), name=_name, help=_summary)
for _reference in dict.fromkeys(reference for reference, _ in TYPED.values()):
    app.add_typer(cast("typer.Typer", registry.resolve(_reference)))  # its commands are the program's own
