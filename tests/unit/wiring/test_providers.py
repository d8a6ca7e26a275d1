"""Providers as they are configured; what they say over the wire is tested beside them."""

from __future__ import annotations

import os
import sys
from contextlib import AsyncExitStack

import pytest

from assayd.errors import ConfigError
from assayd.settings import RepairProvider
from assayd.wiring.providers import open_providers

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
    with pytest.raises(ConfigError, match=rf"repair\.providers\.mine: .*{variable} is not set"):
        await opened(mine=RepairProvider(type=kind, model="m"))


async def test_no_process_that_is_started_later_inherits_a_key(monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    one = RepairProvider(type="openai", model="one")
    two = RepairProvider(type="openai", model="two")
    assert {"one", "two"} <= set(await opened(one=one, two=two))
    assert KEY not in os.environ.values()
