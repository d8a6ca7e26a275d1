"""Scripts under the shipped pipeline policy, parsed by the real parser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from assayd.model.policy import ExecutionPolicy, NetworkMode, NetworkPolicy
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd_pipeline.shell import ShellCheck, check_script
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.worker import lint_shell, parse_shell

Check = Callable[[str], ShellCheck]


@pytest.fixture(autouse=True, scope="session")
def _installed_reader() -> None:
    reader.install_reader(parse_shell)
    reader.install_linter(lint_shell)


@pytest.fixture(scope="session")
def policy() -> ExecutionPolicy:
    return load_policies([get_shared_data_path("policies")]).get("pipeline")


@pytest.fixture(scope="session")
def check(policy: ExecutionPolicy) -> Check:
    return cache(lambda text: check_script(text, policy.commands, network=policy.network))


@pytest.fixture(scope="session")
def check_open(policy: ExecutionPolicy) -> Check:
    """Return a check with curl access to a few hosts."""
    network = NetworkPolicy(
        mode=NetworkMode.ALLOWLIST, hosts=frozenset({"open.example", ".wide.example"}), ports=frozenset({443})
    )
    return lambda text: check_script(text, policy.commands, network=network)


@pytest.fixture(scope="session")
def check_wide(policy: ExecutionPolicy) -> Check:
    """Return a check with more tools than are shipped, as if an operator had allowed them."""
    more = {
        "env",
        "find",
        "xargs",
        "nohup",
        "timeout",
        "nice",
        "tee",
        "mkdir",
        "touch",
        "ln",
        "dd",
        "tr",
        "jq",
    }
    commands = replace(
        policy.commands, allowed=policy.commands.allowed | more, blocked=policy.commands.blocked - {"dd"}
    )
    return lambda text: check_script(text, commands, network=policy.network)
