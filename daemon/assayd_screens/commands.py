"""Implements `assay review`, `assay top` and the screens of `assay generate`, which fill a terminal.

The libraries for terminals are imported when a command runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assayd.errors import RequestError
from assayd_client import PlainClient, Target
from assayd_client.cli.generate import GenerateOptions, is_on_terminal
from assayd_client.cli.ids import resolve_attempt_id
from assayd_client.cli.options import CANCELLED, get_selected_daemon, open_client
from assayd_client.cli.texts import get_submission_texts, write_texts

if TYPE_CHECKING:
    from assayd_screens.wizard import Wizard


def review(
    context: typer.Context,
    attempt: Annotated[str, typer.Argument(metavar="ID", help="Attempt: id, unique id prefix, or `last`.")],
    provider: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Send hints to this provider. Default: the only provider that accepts hints."
        ),
    ] = None,
) -> None:
    """Review an attempt in terminal screens: approve it, edit it, or give a hint."""
    from assayd_screens.session import WizardSession
    from assayd_screens.wizard import Wizard

    if not is_on_terminal():
        raise RequestError(
            "usage", "the review screens require a terminal; `assay show ID` prints the same information"
        )
    daemon = get_selected_daemon(context)
    with PlainClient(daemon) as client:
        found = resolve_attempt_id(client, attempt)
    raise typer.Exit(run_wizard(Wizard(WizardSession(daemon, provider=provider), reviewed=found)))


def run_screens(
    daemon: Target, request: dict[str, Any], given: GenerateOptions, *, name: str, out: Path | None
) -> int:
    """Run the screens of `assay generate`, and return the exit code."""
    from assayd_screens.session import GenerationInput, WizardSession
    from assayd_screens.wizard import Wizard

    session = WizardSession(daemon, provider=request["provider"])
    return run_wizard(Wizard(session, asked=GenerationInput(**request), given=given, name=name, out=out), out)


def run_wizard(wizard: Wizard, out: Path | None = None) -> int:
    """Run the screens, write the approved code or accepted rules, and return the exit code."""
    ended = wizard.run()
    if ended is None:
        return CANCELLED
    if ended.rules is not None:
        write_texts({"": ended.rules.text}, ended.rules.path)
        print(f"Accepted: the rules of {ended.rules.name} are in {ended.rules.path}")
    if ended.approved is not None:
        print(f"Approved: {ended.approved}")
        if out is not None and ended.outcome is not None and ended.outcome.submission is not None:
            write_texts(get_submission_texts(ended.outcome.submission), out)
            print(f"Written: {out}")
        else:
            print(f"Write it to a file: assay library export {ended.approved} --out FILE")
    elif ended.outcome is not None and ended.outcome.attempt is not None and ended.outcome.validated:
        attempt_id = ended.outcome.attempt["id"]
        print(f"Attempt {attempt_id} is validated. Approve it: assay library approve {attempt_id} NAME")
    return ended.code


def top(
    context: typer.Context,
    interval: Annotated[
        float, typer.Option(metavar="S", min=0.2, help="Number of seconds between two snapshots.")
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print one snapshot and exit; rates are averages since startup.")
    ] = False,
) -> None:
    """Show the daemon's activity: rates, queue, containers and running attempts; press q to quit."""
    from rich.console import Console

    from assayd_screens.top import MetricsReader, disable_key_echo, render_frame, run_display_loop

    console = Console(highlight=False, soft_wrap=True)
    with open_client(context) as client:
        if once or not (console.is_terminal and sys.stdin.isatty()):
            console.print(render_frame(MetricsReader(client).read_frame()))
            return
        with disable_key_echo(sys.stdin) as wait:
            run_display_loop(client, console, interval_s=interval, wait=wait)
