"""A program of the operator as provider: real processes, no model."""

import sys

import pytest

from assayd.errors import ProviderError
from assayd.ports.llm import Request
from assayd.ports.repairable import Passage
from assayd.repairs.providers.command import CommandProvider

REQUEST = Request(
    system="s" * 100_000, user="u", passage=Passage(name="code", language="python", text="x = 1\n")
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
    with pytest.raises(ProviderError, match="/nonexistent/model cannot be started"):
        await provider.fix(REQUEST, timeout_s=1)
