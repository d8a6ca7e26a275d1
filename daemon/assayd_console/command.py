"""Implements the command `assay console`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assayd.errors import RequestError
from assayd_client.cli.options import get_selected_daemon


def serve_console(
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
        from assayd_console.serving import serve
    except ModuleNotFoundError as missing:
        raise RequestError(
            "usage", f"assay console needs `{missing.name}`; reinstall the wheel assayd-console"
        ) from missing
    serve(get_selected_daemon(context), port=port, link_file=link_file)
