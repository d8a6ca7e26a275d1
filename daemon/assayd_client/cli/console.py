"""Implements `assay console`, which starts the web console if its packages are installed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assayd.errors import RequestError
from assayd_client.cli.options import selected_daemon

NEEDS = "assay console needs packages that aren't installed: install the wheel assayd-console"


def serve(
    context: typer.Context,
    port: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=65535, help="Listen on this port on 127.0.0.1; 0 selects a free port."
        ),
    ] = 0,
    link_file: Annotated[
        Path | None,
        typer.Option(
            metavar="F",
            help="Write the login link to this file, and replace it after each use; for services.",
        ),
    ] = None,
) -> None:
    """Serve the web console on a loopback port, and print its login link."""
    try:
        from assayd_console.serving import serve as serve_console
    except ModuleNotFoundError as missing:
        raise RequestError("usage", NEEDS) from missing
    serve_console(selected_daemon(context), port=port, link_file=link_file)
