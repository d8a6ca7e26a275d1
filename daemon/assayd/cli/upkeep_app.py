"""The commands of `assay` for whoever looks after a daemon: removal, copies, metrics, a live view."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from assayd.client import PlainClient

upkeep_app = typer.Typer()

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@upkeep_app.command("gc")
def collect_garbage(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be removed.")] = False,
    as_json: Json = False,
) -> None:
    """Remove finished attempts and bundles that are too old or too many; for operators."""
    from assayd.cli.report import count
    from assayd.cli.terminal import print_json

    with _client(context) as client:
        swept = client.collect_garbage(dry_run=dry_run)
    if as_json:
        print_json(swept)
        return
    what = f"{count(swept['attempts'], 'attempt')} and {count(swept['bundles'], 'stray bundle')}"
    verb = "would be removed" if dry_run else "removed"
    print(f"{what} {verb}, {swept['disk_bytes'] / 2**20:.1f} MiB")


@upkeep_app.command()
def backup(
    context: typer.Context,
    target: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to; an earlier copy is brought up to date.")
    ],
    state_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The daemon's state directory; else it is asked."),
    ] = None,
) -> None:
    """Copy the daemon's database and bundles while it runs; as root or the daemon's user."""
    from assayd.cli.backup import back_up, find_state
    from assayd.cli.report import count

    if state_dir is None:
        with _client(context) as client:
            state_dir = find_state(client)
    copied = count(back_up(target, state_dir), "new bundle")
    print(f"{target}: the database and {copied} of {state_dir}")


@upkeep_app.command()
def metrics(context: typer.Context) -> None:
    """Print the daemon's metrics."""
    with _client(context) as client:
        sys.stdout.write(client.metrics().decode())


@upkeep_app.command()
def top(
    context: typer.Context,
    interval: Annotated[float, typer.Option(metavar="S", min=0.2, help="Seconds between looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, at the time since the start.")] = False,
) -> None:
    """Show what the daemon does at the moment: rates, queue, containers, running attempts."""
    from rich.console import Console

    from assayd.cli.top import Watch, render, watch

    console = Console(highlight=False, soft_wrap=True)
    with _client(context) as client:
        if once or not console.is_terminal:
            console.print(render(Watch(client).look()))
        else:
            watch(client, console, interval_s=interval)


def _client(context: typer.Context) -> PlainClient:
    from assayd.client import PlainClient

    return PlainClient(context.find_root().obj)
