"""The client's wheel works without the daemon's modules and their dependencies."""

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
    """Return the module names of a project's dependencies."""
    wanted = tomllib.loads(project.read_text())["project"]["dependencies"]
    modules = {"pyyaml": "yaml", "shfmt-py": "shfmt_py"}
    names = {re.split(r"[\[<>=!~ ]", line)[0].lower() for line in wanted}
    return {modules.get(name, name.replace("-", "_")) for name in names}


MOST_LINES = 23_700
NEEDS_DAEMON = {
    "assayd_client.cli.policy",
    "assayd_client.cli.own_user",
}
"""Modules of commands that work only where the daemon, or the console, is installed as well."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the client's wheel and unpack it like an installation."""
    return built("client", tmp_path_factory.mktemp("client"))


def built(project: str, folder: Path) -> Path:
    """Build the wheel of a folder; return the unpacked folder."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT / project]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def run(site: Path, program: str) -> subprocess.CompletedProcess[str]:
    daemons = names_of(ROOT / "pyproject.toml") - names_of(ROOT / "client/pyproject.toml")
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
        "assay: this command requires the daemon package, but only the client is installed; install "
        "the package assayd\n",
    )


@pytest.mark.parametrize(
    ("kind", "files", "options"),
    [
        ("code", {"n.py": b"result = 1"}, "input={}"),
        ("extractor", {"x.py": b"x = 1"}, "sample_paths=('/a',)"),
        ("fifth", {"p.fs": b": x ;"}, ""),
        ("module", {"manifest.json": b"{}", "adapter.py": b"x = 1"}, ""),
        ("pipeline", {"a.sh": b"true"}, ""),
        ("script", {"s.py": b"x = 1"}, ""),
    ],
)
def test_every_kind_builds_payloads_without_the_daemon(
    installed: Path, kind: str, files: dict[str, bytes], options: str
) -> None:
    program = f"""
from assayd.ports.command_line import FileOptions
from assayd_client.cli.kinds import get_files_reader
print(*get_files_reader({kind!r})({files!r}, FileOptions({options})))
"""

    done = run(installed, program)

    assert done.stdout.split(), done.stderr


def test_help_of_every_command_is_printed_without_the_daemon(installed: Path) -> None:
    program = """
from assayd_client.cli import main
from assayd_client.cli.app import COMMANDS
for name in (*COMMANDS, "pipeline"):
    assert main([name, "--help"]) == 0, name
raise SystemExit(main(["--help"]))
"""

    done = run(installed, program)

    assert done.returncode == 0, done.stderr
    assert "  pipeline " in done.stdout


def test_unknown_kind_is_refused_with_those_that_are_known(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("x = 1")
    line = ["validate", "nothing", str(tmp_path / "x.py")]

    done = run(installed, f"from assayd_client.cli import main; raise SystemExit(main({line!r}))")

    assert (done.returncode, "use one of code, extractor" in done.stderr) == (2, True), done.stderr


def test_every_module_but_those_that_need_the_daemon_is_imported(installed: Path) -> None:
    """Finds modules that are missing in the wheel, even if only a function imports them."""
    modules = [
        ".".join(path.relative_to(installed).with_suffix("").parts).removesuffix(".__init__")
        for path in installed.rglob("*.py")
    ]
    optional = ("assayd_attestation.", "assayd_client.cli.lsp", "assayd_client.cli.mcp")
    wanted = sorted(m for m in modules if m not in NEEDS_DAEMON and not m.startswith(optional))
    program = f"from importlib import import_module\nfor name in {wanted!r}: import_module(name)"

    done = run(installed, program)

    assert done.returncode == 0, done.stderr


def test_wheel_holds_little_beside_the_client(installed: Path) -> None:
    lines = sum(len(path.read_text().splitlines()) for path in installed.rglob("*.py"))

    assert lines <= MOST_LINES


def test_console_has_a_wheel_of_its_own(tmp_path: Path, installed: Path) -> None:
    console = built("client/console", tmp_path)

    assert (console / "assayd_console/serving.py").exists()
    assert not (installed / "assayd_console").exists()
