"""The client's wheel works without the daemon's rooms, and without the packages that only those need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from support.daemons.fake_service import FakeService
from support.daemons.server import serving

ROOT = Path(__file__).resolve().parents[2]
# Run before the program: what the client does not depend on is not there, whatever else is installed.
ALONE = """
import sys
class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuses())
"""


def names_of(project: Path) -> set[str]:
    """Return the names of what a project depends on, as its modules are called."""
    wanted = tomllib.loads(project.read_text())["project"]["dependencies"]
    modules = {"pyyaml": "yaml", "shfmt-py": "shfmt_py"}
    names = {re.split(r"[\[<>=!~ ]", line)[0].lower() for line in wanted}
    return {modules.get(name, name.replace("-", "_")) for name in names}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and unpack it, as an installation would."""
    folder = tmp_path_factory.mktemp("client")
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        folder,
        ROOT / "client",
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def run(site: Path, program: str) -> subprocess.CompletedProcess[str]:
    daemons = names_of(ROOT / "pyproject.toml") - names_of(ROOT / "client/pyproject.toml")
    daemons -= {"h11"}  # which httpx brings
    code = f"REFUSED = {sorted(daemons | {'starlette'})!r}\n{ALONE}\n{program}"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)


def test_library_reads_a_typed_answer(installed: Path, tmp_path: Path) -> None:
    program = """
from assayd_client import Client
with Client(SOCKET) as client:
    attempt = client.submit({"kind": "extractor", "payload": {"code": "x = 1"}}, wait_s=5)
print(type(attempt).__module__, attempt.verdict.value)
import assayd; print(assayd.__file__)
"""
    with serving(FakeService(), tmp_path / "s") as path:
        done = run(installed, f"SOCKET = {str(path)!r}\n{program}")

    assert done.stdout.split() == [
        "assayd.documents.attempts",
        "validated",
        str(installed / "assayd/__init__.py"),
    ], done.stderr


def test_program_validates_a_file(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "extract.py").write_text("def extract(path):\n    return {}\n")
    with serving(FakeService(), tmp_path / "s") as path:
        arguments = [
            "--socket",
            path,
            "validate",
            "extractor",
            tmp_path / "extract.py",
            "--sample-path",
            "/a",
        ]
        line = [str(argument) for argument in arguments]
        done = run(installed, f"from assayd_client.cli import main; raise SystemExit(main({line!r}))")

    assert (done.returncode, "Validation: ✓ Passed" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("line", [["images", "list"], ["policy", "check", "--local"]])
def test_command_of_the_daemon_says_that_it_is_not_here(installed: Path, line: list[str]) -> None:
    done = run(installed, f"from assayd_client.cli import main; raise SystemExit(main({line!r}))")

    assert (done.returncode, done.stderr) == (
        2,
        "assay: this command is the daemon's, and here is its client alone; install assayd\n",
    )


def test_every_kind_builds_payloads_without_the_daemon(installed: Path) -> None:
    program = "from assayd.kinds.registry import load; print(*load(()))"

    done = run(installed, program)

    assert done.stdout.split() == ["code", "extractor", "fifth", "module", "pipeline", "script"], done.stderr
