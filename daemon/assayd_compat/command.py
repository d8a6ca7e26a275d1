"""Implements the command `assay compat`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assayd.errors import RequestError
from assayd_client.cli.options import get_selected_daemon


def serve_compat(
    context: typer.Context,
    listen: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Listen on this address: HOST:PORT or unix:PATH."),
    ] = "127.0.0.1:8080",
    concurrency: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=1000,
            help="Run at most this many programs at once; further requests wait.",
        ),
    ] = 64,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="LANGUAGE=NAME", help="Run a language under this profile (repeatable)."),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Accept other machines over TLS with this certificate; requires --server."
        ),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the certificate's private key from this file.")
    ] = None,
) -> None:
    """Serve clients of SandboxFusion, Piston and Judge0 on a port or a socket."""
    try:
        from assayd_compat.serving import serve
    except ModuleNotFoundError as missing:
        raise RequestError(
            "usage", f"assay compat needs `{missing.name}`; reinstall the package assayd"
        ) from missing
    serve(
        get_selected_daemon(context),
        listen,
        at_once=concurrency,
        policies=policy or [],
        certificate=certificate,
        key=key,
    )
