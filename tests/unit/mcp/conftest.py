from typing import Any

import pytest
from mcp import Client, MCPError

from assayd_client import AsyncClient
from assayd_mcp.daemon import DaemonConnection
from assayd_mcp.server import AgentServer
from support.daemons.cli_fixtures import finished, server, service, socket  # noqa: F401 - pytest finds them


class Agent:
    """The official client with our server in the same process; each call opens a new connection."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **options: Any) -> Any:
            async with (
                AsyncClient(self._path) as client,
                Client(AgentServer(DaemonConnection(client)).build_server()) as agent,
            ):
                try:
                    return await getattr(agent, name)(*arguments, **options)
                except MCPError as error:
                    refusal = error  # raised here, it would come out as a group
            raise refusal

        return call


@pytest.fixture
def agent(socket: str) -> Agent:  # noqa: F811
    return Agent(socket)
