"""A tool for the OpenAI Agents SDK: the agent's Python runs in a fresh container of assayd.

    agent = Agent(name="analyst", tools=[run_python])
"""

import asyncio

from agents import function_tool
from assayd_client import PlainClient


@function_tool
async def run_python(code: str) -> str:
    """Run a Python program without a network and return what it printed, or why it failed.

    Args:
        code: The whole program. It starts fresh each time: nothing of an earlier run is left.
    """
    return await asyncio.to_thread(_run, code)


def _run(code: str) -> str:
    with PlainClient() as client:
        attempt = client.submit({"kind": "script", "payload": {"code": code}}, wait_s=120)
    if attempt["verdict"] == "validated":
        return attempt["execution"]["stdout"]
    return attempt["report"]["retry_context"] if attempt["report"] else f"internal error: {attempt['error']}"
