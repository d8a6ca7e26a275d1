"""Independent clients from PyPI, and the examples for agents, with scripted models."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.daemons.chosen import new_daemon
from support.daemons.compat import compat_on
from support.daemons.daemon_process import DaemonProcess

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
LOCKS = (ROOT / "requirements/agents.txt", ROOT / "requirements/verl.txt")

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

    async def get_response(self, *rest, input, **more):
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
agent = Agent(name="a", model=Scripted(), tools=[run_python])
print("ANSWER", Runner.run_sync(agent, "42?").final_output.strip())
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


PISTON = r"""
import asyncio, sys
import piston_rspy
from ultra_piston import File, PistonClient
from ultra_piston.errors import BadRequestError

client = PistonClient(base_url=f"{sys.argv[1]}/api/v2/")
known = [each.language for each in client.get_runtimes()]
failing = "import sys; print(input()); sys.exit(3)"
ran = client.post_execute(language="python", version="3.11.2", file=File(content=failing), stdin="hi").run
try:
    client.post_execute(language="cobol", version="*", file=File(content=""))
    refused = False
except BadRequestError:
    refused = True


async def other_client():
    client = piston_rspy.Client.with_url(f"{sys.argv[1]}/api/v2")
    file = piston_rspy.File(name="main.py", content="print(6 * 7)")
    asked = piston_rspy.Executor().set_language("python").set_version("*").add_file(file)
    return (await client.execute(asked)).run.stdout


other = asyncio.run(other_client())
print("ANSWER", "python" in known and refused and (ran.stdout, ran.code, other) == ("hi\n", 3, "42\n"))
"""

JUDGE0 = r"""
import sys
import judge0
from judge0 import LanguageAlias, Status

client = judge0.Client(sys.argv[1], {})


def judge(source, language=LanguageAlias.PYTHON, **more):
    return judge0.run(client=client, source_code=source, language=language, **more)


double = judge("print(int(input()) * 2)", test_cases=[("1", "2"), ("2", "4"), ("3", "7")])
found = [each.status for each in double]
found += [judge(source, **more).status for source, more in (
    ("import missing", {}),
    ("while True: pass", {"cpu_time_limit": 0.2}),
    ("import os; os.abort()", {}),
    ("echo no; exit 3", {"language": LanguageAlias.BASH}),
)]
wanted = [3, 3, 4, 11, 5, 10, 11]
print("ANSWER", found == [Status(number) for number in wanted])
"""

VERL = r"""
import sys

sys.path.insert(0, sys.argv[2])
from sandbox_fusion import compute_score

ADD = "a, b = map(int, input().split())\nprint(a {} b)"
CASES = {"inputs": ["1 2", "5 5", "-1 1", "0 0"], "outputs": ["3", "10", "0", "0"]}
CALL = {"inputs": ["[1, 2]\n3"], "outputs": ["[1, 2, 3]"], "fn_name": "appended"}
SCORES = [
    (ADD.format("+"), CASES, 1.0),
    (ADD.format("-"), CASES, 0.25),
    ("print(", CASES, 0.0),
    ("while True: pass", CASES, 0.0),
    ("class Solution:\n    def appended(self, items, item): return [*items, item]", CALL, 1.0),
    ("def appended(items, item): return [item, *items]", CALL, 0.0),
    ("def double(n): return 2 * n", {"assert_case": ["assert double(2) == 4", "assert double(2) == 5"]}, 0.5),
]
url = f"{sys.argv[1]}/run_code"
answers = [(f"```python\n{code}\n```", cases) for code, cases, _ in SCORES]
found = [compute_score(url, None, 256, answer, cases, timeout=3)[0] for answer, cases in answers]
print("ANSWER", found == [score for _, _, score in SCORES])
"""


@pytest.fixture(scope="module")
def python() -> Path:
    """Return an interpreter with the packages, in an environment that is created once."""
    home = ROOT / ".run/cache/agents"
    interpreter = home / "bin/python"
    ready = home / ".ready"
    if not ready.exists() or ready.stat().st_mtime < max(lock.stat().st_mtime for lock in LOCKS):
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True, timeout=120)
        for lock in LOCKS:
            install = [
                interpreter,
                "-m",
                "pip",
                "-qq",
                "install",
                "--no-deps",
                "--require-hashes",
                "-r",
                lock,
            ]
            subprocess.run(install, check=True, timeout=900)
        ready.touch()
    return interpreter


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """Return a daemon on the OCI engine with templates."""
    made = new_daemon("oci", settings={"POOL__DEFAULT_TARGET": "1", "ANALYSIS__WORKERS": "1"})
    try:
        made.start()
        yield made
    finally:
        made.dispose()


@pytest.mark.parametrize(
    ("program", "answer"),
    [pytest.param(SMOLAGENTS, "21", id="smolagents"), pytest.param(OPENAI, "42", id="openai-agents")],
)
def test_agent_runs_its_code_in_containers(
    daemon: DaemonProcess, python: Path, program: str, answer: str
) -> None:
    places = os.pathsep.join([str(ROOT / "examples/agents"), str(ROOT / "daemon")])
    environ = {**os.environ, "ASSAY_SOCKET": str(daemon.socket), "PYTHONPATH": places}
    done = subprocess.run([python, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"ANSWER {answer}"


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(FUSION, id="sandbox-fusion"),
        pytest.param(PISTON, id="ultra-piston-and-piston-rspy"),
        pytest.param(JUDGE0, id="judge0"),
        pytest.param(VERL, id="verl"),
    ],
)
def test_client_of_another_judge_runs_unchanged(daemon: DaemonProcess, python: Path, program: str) -> None:
    rewards = next(python.parents[1].glob("lib/python3*/site-packages/verl")) / "utils/reward_score"
    with compat_on(daemon.socket, {}) as url:
        done = subprocess.run(
            [python, "-c", program, url, rewards], capture_output=True, text=True, check=False, timeout=300
        )
    assert done.stdout.splitlines()[-1:] == ["ANSWER True"], done.stderr
