"""Generations and repairs through the MCP server, with a real daemon."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from assayd_client import AsyncClient
from assayd_mcp.daemon import DaemonConnection
from assayd_mcp.server import AgentServer
from support.daemons.chosen import new_daemon
from support.daemons.daemon_process import DaemonProcess
from support.engines.oci import needs_oci

pytestmark = [pytest.mark.engine, needs_oci]

PLAYER = """
import json, sys
code = "result: int = a * 2" if json.load(sys.stdin)["attempt"] > 1 else "result: int = b * 2"
print(json.dumps({"code": "a: int\\n" + code + "\\n", "reason": "As asked."}))
"""
WRONG = {"code": "a: int\nresult: int = maht.floor(a)\n", "inputs": {"a": 2}}
UNIMPORTED = {"code": "a: int\nresult: int = math.floor(a)\n", "inputs": {"a": 2}}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    player: Path = tmp_path_factory.mktemp("player") / "player.py"
    player.write_text(PLAYER)
    providers = {"played": {"type": "command", "argv": [sys.executable, str(player)]}}
    settings = {"POOL__DEFAULT_TARGET": "0", "REPAIR__PROVIDERS": json.dumps(providers)}
    made = new_daemon("oci", settings=settings)
    try:
        made.start()
        yield made
    finally:
        made.dispose()


@asynccontextmanager
async def calling(daemon: DaemonProcess) -> AsyncIterator[Any]:
    async with (
        AsyncClient(daemon.socket) as client,
        Client(AgentServer(DaemonConnection(client)).build_server()) as agent,
    ):

        async def call(tool: str, /, **arguments: Any) -> Any:
            result = await agent.call_tool(tool, arguments)
            assert not result.is_error, result.content
            return result.structured_content

        yield call


async def test_words_come_to_validated_code(daemon) -> None:
    async with calling(daemon) as call:
        made = await call(
            "generate", kind="code", intent="double a", context={"inputs": {"a": 2}}, provider="played"
        )

    assert (made["outcome"], made["verdict"]) == ("validated", "validated")
    assert (made["steps"][0]["verdict"], made["steps"][-1]["verdict"]) == ("failed", "validated")
    assert json.loads(made["payload"])["code"] == "a: int\nresult: int = a * 2\n"


async def test_code_is_repaired_by_certain_edits_in_one_call(daemon) -> None:
    async with calling(daemon) as call:
        repaired = await call("validate", kind="code", payload=UNIMPORTED, repair={"provider": "rules"})
        left = await call("validate", kind="code", payload=WRONG)

    assert (repaired["outcome"], repaired["verdict"]) == ("repaired", "validated")
    assert "import math" in json.loads(repaired["payload"])["code"]
    assert (left["verdict"], left["stage_reached"]) == ("failed", "syntax")
