"""Clients from PyPI that know nothing of this project, and the examples for agents, with scripted models."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.daemons.compat import compat_on
from support.daemons.daemon_fixtures import MakeDaemon

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements/agents.txt"

SMOLAGENTS = r"""
from smolagents import CodeAgent, Model
from smolagents.models import ChatMessage, MessageRole
from smolagents_executor import AssaydExecutor


class Scripted(Model):
    def __init__(self, answers):
        super().__init__()
        self.answers = list(answers)

    def generate(self, messages, **more):
        return ChatMessage(role=MessageRole.ASSISTANT, content=self.answers.pop(0))


answers = ["<code>\nx = 20\nprint('first')\n</code>", "<code>\nfinal_answer(x + 1)\n</code>"]
print("ANSWER", CodeAgent(tools=[], model=Scripted(answers), executor=AssaydExecutor()).run("21?"))
"""

OPENAI = r"""
import json
from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from openai_tool import run_python


class Scripted(Model):
    called = False

    async def get_response(self, instructions, input, *rest, **more):
        if not self.called:
            self.called = True
            arguments = json.dumps({"code": "print(6 * 7)"})
            call = ResponseFunctionToolCall(
                type="function_call", call_id="1", name="run_python", arguments=arguments
            )
            return ModelResponse(output=[call], usage=Usage(), response_id=None)
        text = next(item["output"] for item in input if item.get("type") == "function_call_output")
        content = [ResponseOutputText(type="output_text", text=text, annotations=[])]
        message = ResponseOutputMessage(
            id="2", type="message", role="assistant", status="completed", content=content
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *rest, **more):
        raise NotImplementedError


set_tracing_disabled(True)
print("ANSWER", Runner.run_sync(Agent(name="a", model=Scripted(), tools=[run_python]), "42?").final_output)
"""

FUSION = r"""
import sys
from sandbox_fusion import RunCodeRequest, RunStatus, run_code, run_concurrent, set_sandbox_endpoint

set_sandbox_endpoint(sys.argv[1])
asked = [[RunCodeRequest(code=f"print({number})", language="python")] for number in range(32)]
found = run_concurrent(run_code, args=asked, concurrency=16)
right = all(each.status == RunStatus.Success for each in found)
print("ANSWER", right and [int(each.run_result.stdout) for each in found] == list(range(32)))
"""


@pytest.fixture(scope="module")
def python() -> Path:
    """Return an interpreter with the packages, in an environment that is made once."""
    home = ROOT / ".run/cache/agents"
    interpreter = home / "bin/python"
    ready = home / ".ready"
    if not ready.exists() or ready.stat().st_mtime < LOCK.stat().st_mtime:
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True, timeout=120)
        install = [interpreter, "-m", "pip", "-qq", "install", "--no-deps", "--require-hashes", "-r", LOCK]
        subprocess.run(install, check=True, timeout=900)
        ready.touch()
    return interpreter


@pytest.mark.parametrize(
    ("program", "answer"),
    [pytest.param(SMOLAGENTS, "21", id="smolagents"), pytest.param(OPENAI, "42", id="openai-agents")],
)
def test_agent_runs_its_code_in_containers(
    make_daemon: MakeDaemon, python: Path, program: str, answer: str
) -> None:
    daemon = make_daemon("oci")
    daemon.start()
    places = os.pathsep.join([str(ROOT / "examples/agents"), str(ROOT / "daemon")])
    environ = {**os.environ, "ASSAY_SOCKET": str(daemon.socket), "PYTHONPATH": places}
    done = subprocess.run([python, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"ANSWER {answer}"


def test_client_of_sandbox_fusion_runs_unchanged(make_daemon: MakeDaemon, python: Path) -> None:
    daemon = make_daemon("oci", settings={"POOL__DEFAULT_TARGET": "1"})
    daemon.start()
    with compat_on(daemon.socket, {}) as url:
        done = subprocess.run([python, "-c", FUSION, url], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "ANSWER True"
