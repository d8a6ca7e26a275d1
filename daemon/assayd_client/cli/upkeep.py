"""What `assay` does for operators: examine the daemon, clean up, back up, show metrics and a live view."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from assayd.errors import RequestError
from assayd_client import ServerChoice
from assayd_client.cli.exits import TROUBLE
from assayd_client.cli.options import Json, open_client
from assayd_client.cli.terminal import out, print_json


def doctor(context: typer.Context, as_json: Json = False) -> None:
    """Examine the daemon: engine, images, limits, isolation, permissions."""
    from assayd_client.cli.listing import CHECK_HEADS, check_lines, check_row
    from assayd_client.cli.table import print_table

    with open_client(context) as client:
        checks = client.doctor()["checks"]
    if as_json:
        print_json(checks)
    elif out().is_terminal:
        out().lines(check_lines(checks))
    else:
        print_table(out(), CHECK_HEADS, [check_row(check) for check in checks])
    if any(check["status"] == "fail" for check in checks):
        raise typer.Exit(TROUBLE)


def collect_garbage(
    context: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Delete finished attempts and bundles beyond the retention limits (operators)."""
    from assayd_client.cli.amounts import count

    with open_client(context) as client:
        swept = client.collect_garbage(dry_run=dry_run)
    if as_json:
        print_json(swept)
        return
    what = (
        f"{count(swept['attempts'], 'attempt')} and {count(swept['bundles'], 'bundle')} of attempts that stay"
    )
    verb = "would be removed" if dry_run else "removed"
    print(f"{what} {verb}, {swept['disk_bytes'] / 2**20:.1f} MiB")


def backup(
    context: typer.Context,
    target: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to copy to; an earlier copy there is updated.")
    ],
    state_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The daemon's state directory. Default: ask the daemon."),
    ] = None,
) -> None:
    """Back up the database and bundles of a running daemon, as root or its user."""
    from assayd_client.cli.amounts import count
    from assayd_client.cli.backup import back_up, find_state

    if state_dir is None:
        with open_client(context) as client:
            if isinstance(client.address, ServerChoice):
                message = f"backup copies files of this host, and {client.address} is another"
                raise RequestError("usage", f"{message}; copy its database and bundles with their own tools")
            state_dir = find_state(client)
    copied = count(back_up(target, state_dir), "new bundle")
    print(f"{target}: the database and {copied} of {state_dir}")


def metrics(context: typer.Context) -> None:
    """Print the daemon's metrics."""
    with open_client(context) as client:
        sys.stdout.write(client.metrics().decode())


def top(
    context: typer.Context,
    interval: Annotated[
        float, typer.Option(metavar="S", min=0.2, help="Seconds between two snapshots.")
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print one snapshot and exit; rates are since startup.")
    ] = False,
) -> None:
    """Show the daemon's activity: rates, queue, containers, running attempts."""
    from rich.console import Console

    from assayd_client.cli.top import Watch, render, watch

    console = Console(highlight=False, soft_wrap=True)
    with open_client(context) as client:
        if once or not console.is_terminal:
            console.print(render(Watch(client).look()))
        else:
            watch(client, console, interval_s=interval)


def version() -> None:
    """Print the versions of client and daemon."""
    from assayd import __version__

    print(f"assay {__version__}")
