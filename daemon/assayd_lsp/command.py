"""Implements the command `assay lsp`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from assayd_client.cli.options import get_selected_daemon
from assayd_client.cli.parts import build_missing_library_error


def serve_lsp(context: typer.Context) -> None:
    """Run a language server for editors: diagnostics and quick fixes."""
    try:
        from assayd_lsp.server import build_server
    except ModuleNotFoundError as missing:
        raise build_missing_library_error("lsp", "pygls") from missing
    with TemporaryDirectory(prefix="assay-rules-") as pages:
        build_server(get_selected_daemon(context), Path(pages)).start_io()
