"""An operator's program as a provider: real processes, no model."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from assayd.errors import ProviderError
from assayd.keys import make_environment_unreadable
from assayd.model.prompting import SourcePart
from assayd_chains.provider import FixRequest
from assayd_chains.providers.command import CommandProvider

REQUEST = FixRequest(
    system="s" * 100_000, user="u", passage=SourcePart(name="code", language="python", text="x = 1\n")
)
ECHO = """
import json, sys
asked = json.load(sys.stdin)
print("Here:", json.dumps({"patched_code": asked["passage"]["text"].upper(), "fix_reason": asked["user"]}))
"""
ENVIRONMENT = """
import json, os
print(json.dumps({"patched_code": " ".join(sorted(os.environ)), "fix_reason": ""}))
"""
LEAVES = "import subprocess, sys, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"


async def fix(program: str, *, timeout_s: float = 30.0, **environment: str):
    provider = CommandProvider("mine", [sys.executable, "-c", program], environment)
    return await provider.fix(REQUEST, timeout_s=timeout_s)


async def test_program_gets_the_request_and_prints_the_fix() -> None:
    reply = await fix(ECHO)
    assert (reply.code, reply.reason) == ("X = 1\n", "u")


async def test_program_that_does_not_read_is_no_trouble() -> None:
    assert (await fix('print(\'{"patched_code": "y"}\')')).code == "y"


async def test_program_gets_no_more_of_the_environment_than_it_is_given(monkeypatch) -> None:
    monkeypatch.setenv("ASSAYD_SECRET", "key")
    seen = (await fix(ENVIRONMENT, MODEL="small")).code.split()
    assert "MODEL" in seen
    assert "ASSAYD_SECRET" not in seen


@pytest.mark.parametrize(
    ("program", "code", "retryable"),
    [
        ("import sys; sys.exit(3)", "provider.command", True),
        ("print('no')", "provider.reply", True),
        ("print('x' * 3_000_000)", "provider.reply", True),
    ],
)
async def test_program_that_fails_gives_no_fix(program, code, retryable) -> None:
    with pytest.raises(ProviderError) as failed:
        await fix(program)
    assert (failed.value.code, failed.value.retryable) == (code, retryable)


async def test_program_that_takes_too_long_is_ended_with_all_it_started() -> None:
    with pytest.raises(ProviderError, match="took longer"):
        await fix(LEAVES, timeout_s=0.5)


async def test_program_that_is_missing_is_named() -> None:
    provider = CommandProvider("mine", ["/nonexistent/model"])
    with pytest.raises(ProviderError, match="/nonexistent/model can't be started"):
        await provider.fix(REQUEST, timeout_s=1)


async def test_grandchild_that_has_left_its_session_does_not_outlive_the_call(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    program = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open({str(told)!r} + ".new", "w").write(str(os.getpid()))
        os.rename({str(told)!r} + ".new", {str(told)!r})
        time.sleep(600)
    os._exit(0)
while not os.path.exists({str(told)!r}):
    time.sleep(0.01)
print('{{"patched_code": "y"}}')
"""
    assert (await fix(program)).code == "y"
    assert not Path(f"/proc/{told.read_text()}").exists()


async def test_program_that_leaves_its_session_is_ended_when_it_takes_too_long(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    program = f"import os, time; os.setsid() if os.fork() == 0 else 0; open({str(told)!r}, 'a').write("
    program += "f'{os.getpid()} '); time.sleep(600)"
    with pytest.raises(ProviderError, match="took longer"):
        await fix(program, timeout_s=2)
    assert not [pid for pid in told.read_text().split() if Path(f"/proc/{pid}").exists()]


async def test_what_a_program_prints_has_a_limit() -> None:
    with pytest.raises(ProviderError, match="wrote a file of more than") as failed:
        await fix("import os\nwhile True: os.write(1, bytes(1 << 20))")
    assert failed.value.code == "provider.command"


async def test_program_cannot_read_the_environment_of_the_daemon() -> None:
    make_environment_unreadable()
    program = f"""
import json
try:
    seen = open("/proc/{os.getpid()}/environ").read()
except PermissionError:
    seen = "refused"
print(json.dumps({{"patched_code": seen}}))
"""
    assert (await fix(program)).code == "refused"


async def test_program_gets_what_is_asked_as_data_too() -> None:
    program = """
import json, sys
asked = json.load(sys.stdin)
told = {name: asked[name] for name in ("kind", "attempt", "intent", "findings")}
print(json.dumps({"code": json.dumps(told), "reason": asked["prompt"]["user"]}))
"""
    request = replace(
        REQUEST, kind="extractor", attempt=2, intent="words", findings=({"rule": "sandbox.raised"},)
    )
    provider = CommandProvider("mine", [sys.executable, "-c", program], {})
    reply = await provider.fix(request, timeout_s=30)
    told = {"kind": "extractor", "attempt": 2, "intent": "words", "findings": [{"rule": "sandbox.raised"}]}
    assert (json.loads(reply.code), reply.reason) == (told, "u")
    assert reply.text.startswith('{"code"')


async def test_end_of_its_standard_error_is_logged() -> None:
    program = "import sys; print('x' * 5000 + '\\x1b[31mno model', file=sys.stderr); sys.exit(1)"
    with structlog.testing.capture_logs() as logs, pytest.raises(ProviderError):
        await fix(program)
    [said] = [entry for entry in logs if entry["event"] == "provider.stderr"]
    assert said["said"].endswith("\N{REPLACEMENT CHARACTER}[31mno model")
    assert len(said["said"]) <= 2000
