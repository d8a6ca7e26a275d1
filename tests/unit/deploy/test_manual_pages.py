"""Manual pages and completions contain every option, in the words of the programs' help."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from assayd.settings import iter_documented_settings
from assayd_client.cli.app import app
from assayd_cluster.settings import NODE_PREFIX, NodeSettings

PAGES = runpy.run_path(str(Path(__file__).resolve().parents[3] / "deploy/manual_pages.py"))
CLIENT: str = PAGES["client_page"]()
DAEMON: str = PAGES["daemon_page"]()
GATEWAY: str = PAGES["gateway_page"]()
NODE: str = PAGES["node_page"]()
groff = pytest.mark.system if shutil.which("groff") is None else pytest.mark.filterwarnings("error")
"""For those without groff this is among the tests of `make test-system`, which installs it."""


def plain(page: str) -> str:
    return page.replace("\\-", "-")


def commands(path: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "commands"):
            yield from commands(f"{path} {name}", command)
        else:
            yield f"{path} {name}", command


def test_every_command_is_described_with_all_that_it_takes() -> None:
    listed = list(commands("assay", typer.main.get_command(app)))
    assert len(listed) > 50
    for name, command in listed:
        found = re.search(rf'^\.SS "{name} .*?(?=^\.S[SH] )', plain(CLIENT), re.MULTILINE | re.DOTALL)

        assert found, name
        said = " ".join(found[0].split())
        options = [option for each in command.params for option in each.opts if option.startswith("-")]
        assert [option for option in options if option not in said and option != "--help"] == [], name
        assert command.help, name


def test_every_setting_and_option_of_the_daemon_is_described() -> None:
    for name, variable, _, _ in iter_documented_settings():
        assert f"{name} ({variable})" in DAEMON
    for option in ("--print-config", "--check-config", "--sample-config", "--version"):
        assert option in plain(DAEMON)


def test_what_a_gateway_and_a_node_have_beyond_a_daemon_is_described() -> None:
    for name in ("--migrate", "cluster.database_mb (ASSAYD_CLUSTER__DATABASE_MB)", "cluster.bundles.kind"):
        assert name in plain(GATEWAY)
    assert "pool.enabled" not in GATEWAY
    for field in NodeSettings.model_fields:
        assert f"{NODE_PREFIX}{field.upper()}" in NODE


def test_same_source_gives_the_same_pages() -> None:
    assert (PAGES["client_page"](), PAGES["daemon_page"]()) == (CLIENT, DAEMON)


@groff
@pytest.mark.parametrize(
    "page", [CLIENT, DAEMON, GATEWAY, NODE], ids=["assay.1", "assayd.8", "assayd-gateway.8", "assayd-node.8"]
)
def test_page_is_typeset_without_a_complaint(page: str) -> None:
    command = ["groff", "-man", "-ww", "-z", "-Kutf8"]
    done = subprocess.run(command, input=page, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_line_that_roff_would_take_for_a_request_is_text() -> None:
    assert PAGES["_text"](".SH no") == "\\&.SH no"
    assert PAGES["_text"]("a\\b -c") == "a\\eb \\-c"


@pytest.mark.parametrize("name", ["assay", "_assay", "assay.fish"])
def test_completion_asks_the_program(name: str) -> None:
    assert "_ASSAY_COMPLETE=complete_" in PAGES["completions"]()[name]
