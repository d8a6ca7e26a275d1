"""Implements `assay audit`, which shows the recorded changes and whether the log itself was altered."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from assayd_client import Document
from assayd_client.cli import exits
from assayd_client.cli.ages import to_api_time
from assayd_client.cli.options import Json, open_client


def show_audit(
    context: typer.Context,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Show changes since this age or time: 30m, 24h, 7d or RFC 3339."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify that no line was changed or removed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the audit log (operators only). With --verify, the exit code is 1 if the log was changed."""
    with open_client(context) as client:
        lines = client.audit(since=None if verify else to_api_time(since)).splitlines(keepends=True)
    if verify:
        _verify_chain(lines)
    elif as_json:
        for line in lines:
            print(line.decode("utf-8", "replace"), end="")
    else:
        _print_entries([json.loads(line) for line in lines])


def _verify_chain(lines: list[bytes]) -> None:
    from assayd import audit

    try:
        chain = audit.verify(lines)
    except audit.AuditError as error:
        print(f"Changed: {error}")
        raise typer.Exit(exits.FAILED) from error
    print(f"✓ {chain.lines} lines, none changed or removed, from {chain.first_at} to {chain.last_at}")


def _print_entries(entries: list[Document]) -> None:
    from assayd_client.cli.terminal import out, print_table

    rows = [
        (entry["at"][:19] + "Z", _format_actor(entry["actor"]), entry["action"], entry["subject"])
        for entry in entries
    ]
    print_table(out(), ("at", "who", "action", "subject"), rows)


def _format_actor(actor: Document) -> str:
    if "uid" in actor:
        return f"uid {actor['uid']}"
    return f"token {actor['token']}" if "token" in actor else "daemon"
