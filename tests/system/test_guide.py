"""The commands of the operators' guide that need their own system, run unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.machines.installed import validate, wait_until_it_serves, with_engine
from support.machines.machine import Machine
from support.machines.packages import next_version
from support.texts import guide

pytestmark = pytest.mark.system

ORDER = ("install.md", "configure.md", "alerts.md", "recover.md", "upgrade.md")


def follow(machine: Machine, page: str) -> None:
    for command in guide.commands(guide.OPERATING / page, "system"):
        # Where it asks whether all is well, the reader has waited until it is.
        if "assay doctor" in command:
            wait_until_it_serves(machine)
        machine.sh(command)
        if "systemctl start" in command or "systemctl restart" in command:
            wait_until_it_serves(machine)


def test_page_after_page_leads_from_a_bare_system_to_an_upgraded_one(
    system_root: Path, deb: Path, docker_host: str, tmp_path: Path
) -> None:
    assert {page.name for page in guide.PAGES if guide.commands(page, "system")} == set(ORDER)
    with with_engine(system_root, tmp_path, docker_host) as machine:
        machine.copy(deb, "/root/assayd.deb")
        machine.copy(next_version(deb, tmp_path), "/root/next.deb")

        follow(machine, "install.md")
        attempt = validate(machine)
        for page in ORDER[1:]:
            follow(machine, page)

        assert "-99" in machine.run("dpkg-query", "--show", "assayd").stdout
        assert attempt in machine.run("assay", "list", user="alice").stdout
        validate(machine)
