"""`assay compat`: serves clients of other judges, if that wing is installed."""

from __future__ import annotations

from typing import Annotated

import typer

from assayd.errors import RequestError
from assayd_client.cli.options import daemon_of

NEEDS = "assay compat needs {missing}, which isn't installed; it comes with the package assayd"


def serve(
    context: typer.Context,
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", help="Address to listen on: a loopback host with its port, or unix:PATH."
        ),
    ] = "127.0.0.1:8080",
    concurrency: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=1000, help="Programs to run at the same time; further requests wait."
        ),
    ] = 64,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="LANGUAGE=NAME", help="Run a language under this profile; may be repeated."),
    ] = None,
) -> None:
    """Serve clients of SandboxFusion, Piston and Judge0 on a loopback port or a socket."""
    try:
        from assayd_compat.serving import serve as serve_compat
    except ModuleNotFoundError as missing:
        raise RequestError("usage", NEEDS.format(missing=missing.name)) from missing
    serve_compat(daemon_of(context), listen, at_once=concurrency, policies=policy or [])
