"""Starts the MCP server over standard streams, or on a loopback address over HTTP with a token."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

import typer

from assayd.errors import RequestError
from assayd_client import Target
from assayd_client.cli.options import get_selected_daemon
from assayd_client.cli.parts import build_missing_library_error

MESSAGE_BYTES = 20 * 2**20
"""Maximum number of bytes of a message: the largest body that the daemon accepts, plus the envelope."""
PIECE_BYTES = 2**20


def serve(
    context: typer.Context,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT", help="Serve HTTP on this loopback address instead; requires --token-file."
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="F", help="Require the token in this file; created if the file doesn't exist."),
    ] = None,
) -> None:
    """Run an MCP server for coding agents, over standard input and output or HTTP."""
    if (http is None) != (token_file is None):
        raise RequestError("usage", "--http and --token-file must be used together")
    try:
        import anyio
        import mcp  # noqa: F401
    except ModuleNotFoundError as missing:
        raise build_missing_library_error("mcp", "mcp") from missing
    daemon = get_selected_daemon(context)
    if http is None:
        anyio.run(_serve_streams, daemon)
    else:
        from assayd_mcp.http import serve_http

        serve_http(daemon, http, cast("Path", token_file))


async def _serve_streams(daemon: Target) -> None:
    from mcp.server.stdio import stdio_server

    from assayd_client import AsyncClient
    from assayd_mcp.daemon import DaemonConnection
    from assayd_mcp.server import AgentServer

    lines = BoundedLineReader(sys.stdin.buffer)
    async with AsyncClient(daemon) as client:
        server = AgentServer(DaemonConnection(client)).build_server()
        async with stdio_server(stdin=cast("Any", lines)) as (reading, writing):
            lines.answers = writing
            await server.run(reading, writing, server.create_initialization_options())


class BoundedLineReader:
    """The lines of a stream as text. A line that is too long is rejected and skipped in pieces.

    Attributes:
        answers: the stream to which the error for a rejected line is sent.
    """

    def __init__(self, stream: BinaryIO, most: int = MESSAGE_BYTES) -> None:
        self._stream = stream
        self._most = most
        self.answers: Any = None

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await self._read_chunk(self._most):
            if line.endswith(b"\n") or len(line) < self._most:
                yield line.decode("utf-8", "replace")
                continue
            while line and not line.endswith(b"\n"):
                line = await self._read_chunk(PIECE_BYTES)
            await self._reject_long_line()

    async def _read_chunk(self, most: int) -> bytes:
        from anyio import to_thread

        return await to_thread.run_sync(self._stream.readline, most, abandon_on_cancel=True)

    async def _reject_long_line(self) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError

        said = f"the message exceeds {self._most} bytes and was ignored; send less at once"
        error = ErrorData(code=INVALID_REQUEST, message=said)
        await self.answers.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error)))
