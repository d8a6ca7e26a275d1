"""Starts the language server if the library for it is installed."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from assayd_client.cli.options import missing_extra_error, selected_daemon


def serve(context: typer.Context) -> None:
    """Run a language server for editors: diagnostics and quick fixes."""
    try:
        import pygls  # noqa: F401
    except ModuleNotFoundError as missing:
        raise missing_extra_error("lsp", "pygls") from missing
    from assayd_client.cli.lsp.server import build

    with TemporaryDirectory(prefix="assay-rules-") as pages:
        build(selected_daemon(context), Path(pages)).start_io()
