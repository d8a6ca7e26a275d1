"""Implements the commands that start a server whose package is optional."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from assayd.errors import RequestError
from assayd_client.cli.options import get_selected_daemon, missing_extra_error


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
            "usage", "assay console needs packages that aren't installed: install the wheel assayd-console"
        ) from missing
    serve(get_selected_daemon(context), port=port, link_file=link_file)


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
        message = (
            f"assay compat requires {missing.name}, which isn't installed; it is part of the package assayd"
        )
        raise RequestError("usage", message) from missing
    serve(
        get_selected_daemon(context),
        listen,
        at_once=concurrency,
        policies=policy or [],
        certificate=certificate,
        key=key,
    )


def serve_lsp(context: typer.Context) -> None:
    """Run a language server for editors: diagnostics and quick fixes."""
    try:
        from assayd_client.cli.lsp.server import build_server
    except ModuleNotFoundError as missing:
        raise missing_extra_error("lsp", "pygls") from missing
    with TemporaryDirectory(prefix="assay-rules-") as pages:
        build_server(get_selected_daemon(context), Path(pages)).start_io()
