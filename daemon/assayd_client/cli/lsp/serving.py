"""Starts the language server, where its library is installed."""

from __future__ import annotations

from assayd_client import Target
from assayd_client.cli import extras


def serve(daemon: Target) -> int:
    """Serve an editor over standard input and output, until it leaves."""
    try:
        import pygls  # noqa: F401
    except ModuleNotFoundError as missing:
        raise extras.missing("lsp", "pygls") from missing
    from assayd_client.cli.lsp.server import build

    build(daemon).start_io()
    return 0
