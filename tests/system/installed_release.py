"""What `make release` builds, each part installed on a bare Debian by the lines of README, and used there.

`make release` runs this file by its name, with the folder in RELEASE; test_release.py runs `make release`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from assayd import __version__
from assayd_client.cli.parts import PARTS as WHEELS
from support.machines.installed import validate, wait_until_it_serves, with_engine
from support.machines.machine import Machine, make_root
from support.machines.packages import download_wheels

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".run/cache"
PARTS = {
    f"assayd-{__version__}-py3-none-any.whl",
    f"assayd-{__version__}.tar.gz",
    f"assayd-{__version__}.cdx.json",
    f"assayd_client-{__version__}-py3-none-any.whl",
    *(f"{package}-{__version__}-py3-none-any.whl" for package, extra in WHEELS.items() if extra),
    "SHA256SUMS",
}
PREPARE = """\
cd /srv
export HOME=/home/{user} XDG_RUNTIME_DIR=/home/{user}/run PATH=/home/{user}/.local/bin:$PATH
export PIP_NO_INDEX=1 PIP_FIND_LINKS='/mnt/run /mnt/build' PIP_DISABLE_PIP_VERSION_CHECK=1
mkdir -p -m 700 $XDG_RUNTIME_DIR
"""
"""Packages come from folders instead of an index."""
SERVE = """\
assayd >/home/alice/log 2>&1 &
until grep --quiet daemon.ready /home/alice/log; do kill -0 $!; sleep 0.2; done
assay doctor --json >/home/alice/doctor.json || true
assay validate extractor /tmp/extract.py --sample-path /acme/report.csv
kill $!; wait $! || true
"""
CONSOLE = """\
assay console --port 8888 >/home/alice/console 2>&1 &
until grep --quiet http /home/alice/console; do kill -0 $!; sleep 0.2; done
python3 - <<'END'
import re, urllib.request
place, token = re.search(r"(http://[^/]+)/\\S*#(\\S+)", open("/home/alice/console").read()).groups()
opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
opener.open(urllib.request.Request(place + "/login", token.encode(), {"Origin": place}))
print(opener.open(place + "/attempts").read().decode())
END
kill $!
"""


@pytest.fixture(scope="module")
def release() -> Path:
    """Return the folder that `make release` has filled."""
    return Path(os.environ["RELEASE"])


@pytest.fixture(scope="module")
def bare_root(tools: Path) -> Path:
    """Return the root folder of a Debian system with systemd and pipx."""
    return make_root(CACHE / "with-pipx", ["pipx"])


@pytest.fixture
def machine(
    bare_root: Path, release: Path, wheels: Path, docker_host: str, tmp_path: Path
) -> Iterator[Machine]:
    build = download_wheels(CACHE / "wheels", "build")
    reads = [f"{release}:/srv/dist", f"{wheels}:/mnt/run", f"{build}:/mnt/build"]
    with with_engine(bare_root, tmp_path, docker_host, reads=reads) as machine:
        machine.run("usermod", "--append", "--groups", "docker", "alice")
        yield machine


def line_of_readme(beginning: str) -> str:
    """Return the only command in README's installation table with this beginning."""
    section = (ROOT / "README.md").read_text().partition("\n## Install\n")[2].partition("\n## ")[0]
    [found] = [code for code in re.findall(r"`([^`]+)`", section) if code.startswith(beginning)]
    return found


def as_user(machine: Machine, script: str, user: str = "alice") -> str:
    return machine.sh(PREPARE.format(user=user) + script, user=user, timeout_s=900).stdout


def test_release_has_all_parts_with_their_checksums(release: Path) -> None:
    names = {path.name for path in release.iterdir()}

    assert names > PARTS
    assert [
        name for name in names - PARTS if not re.fullmatch(rf"assayd_{__version__}-1_\w+\.deb", name)
    ] == []
    sums = dict(reversed(line.split()) for line in (release / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        name: hashlib.sha256((release / name).read_bytes()).hexdigest() for name in names - {"SHA256SUMS"}
    }


def test_bill_of_materials_names_what_an_installation_is_locked_to(release: Path) -> None:
    document = (release / f"assayd-{__version__}.cdx.json").read_text()

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document) is None
    found = {f"{one['name']}=={one['version']}" for one in json.loads(document)["components"]}
    locked = re.findall(r"^(\S+==\S+) ", (ROOT / "requirements/run.txt").read_text(), re.MULTILINE)
    assert {name for name in found if not name.startswith(("pip==", "setuptools=="))} == set(locked)


@pytest.mark.parametrize("part", ["wheel", "sdist"])
def test_user_installs_it_by_pipx_and_runs_a_daemon(machine: Machine, part: str) -> None:
    line = line_of_readme("pipx install dist/assayd-")
    as_user(machine, line if part == "wheel" else line.replace(".whl", ".tar.gz"))

    said = as_user(machine, SERVE)

    assert "Validation: ✓ Passed" in said
    assert as_user(machine, "assay version").startswith(f"assay {__version__}")


def test_package_is_installed_by_apt_and_clients_by_pipx(machine: Machine) -> None:
    machine.sh(f"cd /srv; {line_of_readme('apt install')}", timeout_s=900)
    machine.run("usermod", "--append", "--groups", "assayd", "alice")
    wait_until_it_serves(machine)
    assert machine.show("assayd.service", "ActiveState") == "active"
    validate(machine)

    as_user(machine, line_of_readme("pipx install dist/assayd_client"))
    said = as_user(
        machine, "which assay; assay validate extractor /tmp/extract.py --sample-path /acme/report.csv"
    )
    assert said.startswith("/home/alice/.local/bin/assay\n")
    assert "Validation: ✓ Passed" in said

    said = as_user(machine, "assay top --once 2>&1 || test $? = 2")
    assert "install the wheel assayd-screens" in said
    as_user(machine, "pipx inject assayd-client dist/assayd_screens-*.whl")
    assert "containers" in as_user(machine, "assay top --once")

    as_user(machine, "pipx inject assayd-client dist/assayd_console-*.whl")
    assert "<title>" in as_user(machine, CONSOLE)
