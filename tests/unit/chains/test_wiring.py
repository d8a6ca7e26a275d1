"""Configured providers; their requests are tested separately."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import assayd
from assayd.errors import ConfigError
from assayd.settings import RepairProvider
from assayd_chains.wiring import open_providers

KEY = "sk-live-0123456789abcdef"


async def opened(**wanted: RepairProvider) -> dict[str, object]:
    async with AsyncExitStack() as stack:
        return dict(await open_providers(wanted, stack))


async def test_rules_are_always_there_and_commands_need_no_library() -> None:
    found = await opened(local=RepairProvider(type="command", argv=("/bin/true",)))
    assert list(found) == ["rules", "local"]


@pytest.mark.parametrize(
    ("kind", "module"), [("anthropic", "anthropic"), ("openai", "openai"), ("gemini", "google.genai")]
)
async def test_library_that_is_not_installed_is_named_by_its_extra(monkeypatch, kind, module) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("MINE", KEY)
    with pytest.raises(ConfigError) as refused:
        await opened(mine=RepairProvider(type=kind, model="m", key_variable="MINE"))
    assert refused.value.code == "repair.extra"
    assert f"pip install 'assayd[{kind}]'" in refused.value.message


@pytest.mark.parametrize(
    ("kind", "variable"),
    [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY"), ("gemini", "GEMINI_API_KEY")],
)
async def test_missing_key_is_told_by_the_vendors_own_variable(monkeypatch, kind, variable) -> None:
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigError, match=rf"repair\.providers\.mine: .*{variable} isn't set"):
        await opened(mine=RepairProvider(type=kind, model="m"))


async def test_no_process_that_is_started_later_inherits_a_key(monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    one = RepairProvider(type="openai", model="one")
    two = RepairProvider(type="openai", model="two")
    assert {"one", "two"} <= set(await opened(one=one, two=two))
    assert KEY not in os.environ.values()


@pytest.mark.slow
def test_daemon_without_the_wing_names_it_and_refuses_repairs(tmp_path: Path) -> None:
    (tmp_path / "assayd").symlink_to(Path(assayd.__file__).parent)
    program = f"""
import asyncio, sys
from contextlib import AsyncExitStack
sys.path[:] = [{str(tmp_path)!r}, *(p for p in sys.path if p[-7:] != "/daemon")]
from assayd.errors import RequestError
from assayd.model.submission import RepairOptions
from assayd.ports.service import find_missing_chain_packages
from assayd.settings import Settings
from assayd.wiring.wings import open_chains

async def main():
    async with AsyncExitStack() as stack:
        wing = await open_chains(Settings(), stack)
    parts = wing.join(None, None, clock=None, ids=None)
    print(len(wing.routers), dict(find_missing_chain_packages()))
    try:
        parts.requests.check(RepairOptions(provider="rules"))
    except RequestError as refused:
        print(refused.code, refused.message)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == [
        "0 {'repair and generation': 'assayd_chains'}",
        "repair.provider_unknown this daemon doesn't support repairs: the package assayd_chains is missing",
    ]
    assert "wing.missing" in done.stdout + done.stderr
