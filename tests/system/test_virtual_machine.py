"""Containers without an engine where control groups are of version 2: as root, and as an ordinary user.

The tests that are run are those of every engine, in a virtual machine that is emulated: it takes an hour and
more.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.machines import virtual

pytestmark = pytest.mark.system

IMAGES = ("adapter", "python")
WITHIN_S = 3 * 3600
CONTAINED = ("kernel", "left", "proc", "resources", "signals", "sockets")
"""Families of hostile programs whose walls are the container's; those of the others are the runner's."""
SCRIPT = """\
set -euo pipefail
tested() {{
    bash /checkout/tests/support/machines/virtual.sh {user} -m pytest -c /checkout/pyproject.toml \\
        --rootdir=/checkout -p no:cacheprovider -q --color=no -k "$2" "/checkout/tests/$1"
}}
tested contract/test_engine.py oci
tested integration/sandbox/test_isolation_check.py 'silent_on_this_engine and oci'
tested escape/test_programs.py 'oci and ({families})'
"""


@pytest.mark.parametrize("user", ["root", "tester"])
def test_containers_hold_on_control_groups_of_version_2(tmp_path: Path, user: str) -> None:
    script = SCRIPT.format(user=user, families=" or ".join(f"{name}/" for name in CONTAINED))
    virtual.lay_out(tmp_path, script, IMAGES)

    done = virtual.run(tmp_path, WITHIN_S)

    assert done.returncode == 0, done.stdout[-20_000:]
