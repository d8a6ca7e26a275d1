"""The install script on its own system: from a wheel, a second time, and uninstalling."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.machines.installed import validate, wait_until_it_serves, with_engine

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
INSTALL = "PIP_NO_INDEX=1 PIP_FIND_LINKS=/mnt/wheels /mnt/checkout/deploy/install.sh"


def test_wheel_is_installed_again_and_taken_away(
    system_root: Path, wheel: Path, wheels: Path, docker_host: str, tmp_path: Path
) -> None:
    reads = [f"{ROOT}:/mnt/checkout", f"{wheels}:/mnt/wheels", f"{wheel.parent}:/mnt/dist"]
    with with_engine(system_root, tmp_path, docker_host, reads=reads) as machine:
        machine.sh(f"{INSTALL} install /mnt/dist/*.whl")
        machine.run("usermod", "--append", "--groups", "assayd", "alice")
        wait_until_it_serves(machine)
        attempt = validate(machine)
        machine.sh("echo '# mine' >>/etc/assayd/assayd.toml")

        machine.sh(f"{INSTALL} install /mnt/dist/*.whl")

        wait_until_it_serves(machine)
        validate(machine)
        assert machine.sh("tail -n 1 /etc/assayd/assayd.toml").stdout == "# mine\n"
        assert attempt in machine.run("assay", "list", user="alice").stdout

        machine.sh(f"{INSTALL} uninstall; {INSTALL} uninstall")

        machine.sh("test ! -e /usr/bin/assay; test ! -e /usr/lib/assayd; test ! -e /usr/share/doc/assayd")
        machine.sh("test -e /var/lib/assayd/assayd.db; test -e /etc/assayd/assayd.toml")
        left = machine.sh("find /usr /etc /run -name '*assay*' ! -path '/etc/assayd*'").stdout
        assert left == ""

        machine.sh(f"{INSTALL} uninstall --purge")

        machine.sh("test ! -e /var/lib/assayd; test ! -e /etc/assayd")


def test_script_leaves_an_installed_package_alone(
    system_root: Path, deb: Path, wheel: Path, docker_host: str, tmp_path: Path
) -> None:
    reads = [f"{ROOT}:/mnt/checkout", f"{wheel.parent}:/mnt/dist"]
    with with_engine(system_root, tmp_path, docker_host, reads=reads) as machine:
        machine.copy(deb, "/root/assayd.deb")
        machine.run("dpkg", "--install", "/root/assayd.deb", timeout_s=600)

        refused = machine.sh("/mnt/checkout/deploy/install.sh install /mnt/dist/*.whl", check=False)

        assert refused.returncode == 1
        assert "use apt" in refused.stderr
        assert machine.show("assayd.service", "ActiveState") == "active"
