"""What the verbs do for whoever looks after a daemon: removal, copies, metrics, a live view, examination."""

from __future__ import annotations

import sys
from pathlib import Path

from assayd.errors import RequestError
from assayd_client import PlainClient, ServerChoice, Target
from assayd_client.cli.exits import TROUBLE, VALIDATED
from assayd_client.cli.terminal import out, print_json


def doctor(daemon: Target, *, as_json: bool) -> int:
    """Let the daemon examine itself, and show what it says."""
    from assayd_client.cli.listing import CHECK_HEADS, check_lines, check_row
    from assayd_client.cli.table import print_table

    with PlainClient(daemon) as client:
        checks = client.doctor()["checks"]
    if as_json:
        print_json(checks)
    elif out().is_terminal:
        out().lines(check_lines(checks))
    else:
        print_table(out(), CHECK_HEADS, [check_row(check) for check in checks])
    return TROUBLE if any(check["status"] == "fail" for check in checks) else VALIDATED


def collect_garbage(daemon: Target, *, dry_run: bool, as_json: bool) -> int:
    """Have removed what is too old or too much."""
    from assayd_client.cli.amounts import count

    with PlainClient(daemon) as client:
        swept = client.collect_garbage(dry_run=dry_run)
    if as_json:
        print_json(swept)
        return VALIDATED
    what = (
        f"{count(swept['attempts'], 'attempt')} and {count(swept['bundles'], 'bundle')} of attempts that stay"
    )
    verb = "would be removed" if dry_run else "removed"
    print(f"{what} {verb}, {swept['disk_bytes'] / 2**20:.1f} MiB")
    return VALIDATED


def backup(daemon: Target, *, target: Path, state_dir: Path | None) -> int:
    """Copy the database and bundles of a state directory."""
    from assayd_client.cli.amounts import count
    from assayd_client.cli.backup import back_up, find_state

    if state_dir is None:
        with PlainClient(daemon) as client:
            if isinstance(client.address, ServerChoice):
                message = f"backup copies files of this host, and {client.address} is another"
                raise RequestError("usage", f"{message}; copy its database and bundles with their own tools")
            state_dir = find_state(client)
    copied = count(back_up(target, state_dir), "new bundle")
    print(f"{target}: the database and {copied} of {state_dir}")
    return VALIDATED


def metrics(daemon: Target) -> int:
    """Print the daemon's metrics."""
    with PlainClient(daemon) as client:
        sys.stdout.write(client.metrics().decode())
    return VALIDATED


def top(daemon: Target, *, interval: float, once: bool) -> int:
    """Show what the daemon does, once or again and again."""
    from rich.console import Console

    from assayd_client.cli.top import Watch, render, watch

    console = Console(highlight=False, soft_wrap=True)
    with PlainClient(daemon) as client:
        if once or not console.is_terminal:
            console.print(render(Watch(client).look()))
        else:
            watch(client, console, interval_s=interval)
    return VALIDATED
