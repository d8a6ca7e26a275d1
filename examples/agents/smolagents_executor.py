"""An executor for smolagents: each step of an agent runs in a fresh container of assayd.

    agent = CodeAgent(tools=[], model=model, executor=AssaydExecutor())

A container is used once, so the earlier steps that succeeded run again before a new one, without their output.
Tools other than `final_answer` would have to run outside the container and are refused.
"""

import json

from assayd_client import PlainClient
from smolagents import PythonExecutor
from smolagents.local_python_executor import CodeOutput

STEP = """import contextlib, io, json
class Answer(BaseException): pass
def final_answer(answer): raise Answer(answer)
space, final = {"final_answer": final_answer}, {}
with contextlib.redirect_stdout(io.StringIO()): exec(open("earlier.py").read(), space)
try: exec(open("step.py").read(), space)
except Answer as found: final["answer"] = found.args[0]
json.dump(final, open("final.json", "w"))"""


class AssaydExecutor(PythonExecutor):
    def __init__(self, policy="script"):
        self.policy, self.earlier = policy, ""

    def send_tools(self, tools):
        if others := set(tools) - {"final_answer"}:
            raise ValueError(f"tools can't run in the container: {', '.join(sorted(others))}")

    def send_variables(self, variables):
        self.earlier += "".join(f"{name} = {value!r}\n" for name, value in variables.items())

    def __call__(self, code_action):
        files = {"earlier.py": self.earlier, "step.py": code_action}
        payload = {"code": STEP, "files": files, "collect": ["final.json"]}
        with PlainClient() as client:
            attempt = client.submit({"kind": "script", "policy": self.policy, "payload": payload}, wait_s=120)
            if attempt["verdict"] != "validated":
                raise RuntimeError(attempt["report"]["retry_context"] if attempt["report"] else str(attempt["error"]))
            final = json.loads(client.artifact(attempt["id"], "files/final.json"))
        self.earlier += code_action + "\n"
        return CodeOutput(output=final.get("answer"), logs=attempt["execution"]["stdout"], is_final_answer=bool(final))
