"""The commands of `assay policy`: what each is called, what it takes, and which part does it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from assayd_client import PlainClient

policy_app = typer.Typer(help="Show profiles, and check files of them.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@policy_app.command("list")
def list_policies(context: typer.Context, as_json: Json = False) -> None:
    """List the daemon's profiles."""
    from assayd_client.cli.listing import POLICY_HEADS, policy_row, print_table
    from assayd_client.cli.terminal import out, print_json

    with _client(context) as client:
        policies = client.policies()["policies"]
    if as_json:
        print_json(policies)
    else:
        print_table(out(), POLICY_HEADS, [policy_row(policy) for policy in policies])


@policy_app.command("show")
def show_policy(context: typer.Context, name: str, as_json: Json = False) -> None:
    """Show a profile with its effective values, and which profiles' files state them."""
    from assayd_client.cli.listing import POLICY_VALUE_HEADS, policy_values, print_table
    from assayd_client.cli.terminal import out, print_json

    with _client(context) as client:
        policy = client.policy(name)
    if as_json:
        print_json(policy)
    else:
        print_table(out(), POLICY_VALUE_HEADS, [list(row) for row in policy_values(policy)])


@policy_app.command("check")
def check_policy(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Profile file in TOML. Default: all profiles in use."),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Use the settings and profiles of this machine, without a daemon.")
    ] = False,
) -> None:
    """Check a profile, or all of them: problems with lines, else what is clamped and allowed."""
    from assayd.tomlfile import FileError
    from assayd_client.cli.exits import FAILED
    from assayd_client.cli.policy_check import check, check_here, remarks
    from assayd_client.cli.terminal import plain

    try:
        if local:
            policies = check_here(file)
        else:
            with _client(context) as client:
                policies = check(client, file)
    except FileError as error:
        print(plain(str(error)), file=sys.stderr)
        raise typer.Exit(FAILED) from error
    print(f"{file or 'all profiles'}: fine")
    for policy in policies:
        for remark in remarks(policy):
            print(plain(remark))


@policy_app.command("explain")
def explain_policy(
    context: typer.Context,
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="Name of the profile to use.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="URL that submitted code would request.")],
    method: Annotated[str, typer.Option(metavar="M", help="Use this request method.")] = "GET",
) -> None:
    """Print whether a profile of the daemon lets code reach a URL, by which rule, and what to do if not."""
    from assayd_client.cli.exits import FAILED
    from assayd_client.cli.policies import explain

    with _client(context) as client:
        policy = client.policy(profile)
    allowed, text = explain(policy, url, method)
    print(text)
    if not allowed:
        raise typer.Exit(FAILED)


def _client(context: typer.Context) -> PlainClient:
    from assayd_client import PlainClient

    return PlainClient(context.find_root().obj)
