"""Containers without an engine where control groups are of version 2: as root, and as an ordinary user.

The tests that are run are those of every engine, in a virtual machine that is emulated. It is about ten times
slower, so that of the hostile programs those are tried whose walls are the container's, and one of each other
family.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.guests.hostile_program import read_programs
from support.machines import virtual

pytestmark = pytest.mark.system

IMAGES = ("adapter", "python")
ALL_IMAGES = (*IMAGES, "forth", "shell")
WITHIN_S = 2 * 3600
FILES = (
    "tests/contract/test_engine.py",
    "tests/integration/sandbox/test_isolation_check.py",
    "tests/escape/test_programs.py",
)
TESTED = """\
exec bash /checkout/tests/support/machines/virtual.sh {user} -m pytest -c /checkout/pyproject.toml \\
    --rootdir=/checkout -p no:cacheprovider -p support.machines.tally -v --color=no \\
    -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true \\
    -k 'oci and (test_engine or silent_on_this_engine or {programs})' {files}
"""


def programs() -> list[str]:
    """Return the names of the hostile programs to run."""
    found = read_programs(virtual.ROOT / "tests/escape/programs")
    return [each.name for each in found if each.tries_the_engine]


@pytest.mark.parametrize("user", ["root", "tester"])
def test_containers_hold_on_control_groups_of_version_2(tmp_path: Path, user: str) -> None:
    tried = programs()
    files = " ".join(f"/checkout/{file}" for file in FILES)
    script = TESTED.format(user=user, programs=" or ".join(f"{name}]" for name in tried), files=files)
    virtual.lay_out(tmp_path, script, IMAGES, FILES)

    done = virtual.run(tmp_path, WITHIN_S)

    tallies = dict(re.findall(r"^tally: (.*): (\d+ of \d+)$", done.stdout, re.MULTILINE))
    assert done.returncode == 0, done.stdout[-20_000:]
    for engine in ("oci", "oci-templates"):
        assert tallies[f"test_isolation_check on {engine}"] == "1 of 1"
        assert tallies[f"test_programs on {engine}"] == f"{len(tried)} of {len(tried)}"
        held, _, tests = tallies[f"test_engine on {engine}"].partition(" of ")
        assert held == tests


def test_the_whole_daemon_holds_as_an_ordinary_user(tmp_path: Path) -> None:
    """The user's service manager starts, kills and stops the daemon, as docs/operating/rootless.md says."""
    virtual.lay_out(tmp_path, "exec bash /checkout/tests/support/machines/ordinary_user.sh\n", ALL_IMAGES, ())

    done = virtual.run(tmp_path, WITHIN_S)

    assert done.returncode == 0, done.stdout[-20_000:]
    assert "held: " in done.stdout
    assert "wrong: " not in done.stdout
