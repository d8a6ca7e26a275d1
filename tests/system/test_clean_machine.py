"""Wheel and package on a machine with nothing but Python: a container of a new image."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from testcontainers.core.container import DockerContainer

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "assayd-test/clean"
# A daemon that nobody has given an engine serves its API and says what it lacks.
WITHOUT_ENGINE = """\
{program}assayd --check-config
ASSAYD_STATE_DIR=/tmp/state ASSAYD_SOCKET=/tmp/s {program}assayd 2>/tmp/log &
until test -S /tmp/s; do sleep 0.1; done
export ASSAY_SOCKET=/tmp/s
until {program}assay metrics >/tmp/metrics 2>/dev/null; do sleep 0.1; done
{program}assay policy list
status=0; {program}assay doctor || status=$?
kill %1; wait %1
exit $((status != 3))
"""
IMPORT_ALL = """\
import importlib, pkgutil, assayd
names = [m.name for m in pkgutil.walk_packages(assayd.__path__, "assayd.")]
# Programs do their work when they are imported; what is for containers and for the migration tool is theirs.
kept = [n for n in names if "__main__" not in n and ".guest" not in n and ".migrations" not in n]
for name in kept:
    importlib.import_module(name)
print(len(kept))
"""


@pytest.fixture(scope="module")
def image(system_root: Path, docker_host: str) -> Iterator[str]:
    with subprocess.Popen(["tar", "-C", system_root, "-c", "."], stdout=subprocess.PIPE) as archive:
        subprocess.run(["docker", "import", "-", IMAGE], stdin=archive.stdout, check=True, timeout=600)
    yield IMAGE
    subprocess.run(["docker", "rmi", "--force", IMAGE], check=True, timeout=120)


@pytest.fixture
def machine(image: str) -> Iterator[DockerContainer]:
    container = DockerContainer(image).with_command("/bin/sleep infinity")
    container = container.with_kwargs(network_mode="none", init=True)
    with container:
        yield container


def put(machine: DockerContainer, *files: Path) -> None:
    """Copy files to /root."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for file in files:
            archive.add(file, file.name)
    machine.get_wrapped_container().put_archive("/root", packed.getvalue())


def sh(machine: DockerContainer, script: str) -> str:
    done = machine.exec(["bash", "-euo", "pipefail", "-c", script])
    assert done.exit_code == 0, done.output.decode()
    return done.output.decode()


def test_wheel_needs_nothing_but_the_locked_packages(
    machine: DockerContainer, wheel: Path, wheels: Path
) -> None:
    put(machine, wheel, wheels, ROOT / "requirements/run.txt")
    sh(
        machine,
        f"cd /root; python3 -m venv v; pip='v/bin/pip -qq --no-cache-dir'"
        f"; $pip install --no-index --find-links {wheels.name} --no-deps --require-hashes -r run.txt"
        f"; $pip install --no-index --no-deps {wheel.name}; $pip check",
    )

    assert sh(machine, "/root/v/bin/assay version").startswith("assay ")
    assert int(sh(machine, f"/root/v/bin/python -c '{IMPORT_ALL}'")) > 100
    assert "fail\tengine" in sh(machine, WITHOUT_ENGINE.format(program="/root/v/bin/"))


def test_package_needs_nothing_that_it_does_not_depend_on(machine: DockerContainer, deb: Path) -> None:
    put(machine, deb)
    sh(machine, f"dpkg --install /root/{deb.name}; rm -r /root/{deb.name}")

    assert sh(machine, "assay version").startswith("assay ")
    assert sh(machine, "id --name --user assayd") == "assayd\n"
    assert "fail\tengine" in sh(machine, WITHOUT_ENGINE.format(program="/usr/bin/"))
    sh(machine, "dpkg --purge assayd; test ! -e /usr/lib/assayd")
