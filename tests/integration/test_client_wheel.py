"""The wheels of the client and of its optional parts work without the daemon's modules and dependencies."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from assayd_client.cli.parts import PARTS as OPTIONAL
from support.daemons.fake_service import FakeService
from support.daemons.server import serving

ROOT = Path(__file__).resolve().parents[2]
Done = subprocess.CompletedProcess[str]
# Run before the program: what no wheel contains or depends on is not there.
ALONE = """
import sys
sys.path[:] = [folder for folder in sys.path if folder != CHECKOUT]
class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuses())
"""


PARTS = ("attestation", "console", "lsp", "mcp", "pipeline-commands", "screens")
"""The folders of the optional parts in client/."""
FROM_LIBRARIES = {"lsp": {"lsprotocol"}, "mcp": {"cryptography", "mcp_types", "starlette", "uvicorn"}}
"""Modules that a part imports and that a library of the part installs."""


def names_of(project: Path) -> set[str]:
    """Return the module names of a project's dependencies and of its extras `lsp` and `mcp`."""
    table = tomllib.loads(project.read_text())["project"]
    extras = table.get("optional-dependencies", {})
    wanted = [*table["dependencies"], *(name for extra in ("lsp", "mcp") for name in extras.get(extra, ()))]
    modules = {"pyyaml": "yaml", "shfmt-py": "shfmt_py"}
    names = {re.split(r"[\[<>=!~ ]", line)[0].lower() for line in wanted}
    return {modules.get(name, name.replace("-", "_")) for name in names}


MOST_LINES = 17_950
NEEDS_OTHERS = {
    "assayd_client.cli.own_user",
    "assayd_client.cli.policy",
    "assayd_client.cli.sample",
}
"""Modules that work only if the daemon or an optional part is installed as well."""


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


def run(site: Path, program: str, libraries_of: str = "", part: Path | None = None) -> Done:
    """Run a program with the client's wheel, and with the wheel of a part and its libraries."""
    needed = names_of(ROOT / "client/pyproject.toml") | FROM_LIBRARIES.get(libraries_of, set())
    if libraries_of:
        needed |= names_of(ROOT / "client" / libraries_of / "pyproject.toml")
    refused = (names_of(ROOT / "pyproject.toml") | {"lsprotocol", "mcp_types", "starlette"}) - needed
    known = f"CHECKOUT, REFUSED = {str(ROOT / 'daemon')!r}, {sorted(refused)!r}"
    code = f"{known}\n{ALONE}\n{program}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, filter(None, (site, part))))}
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


def test_every_module_but_those_that_need_others_is_imported(installed: Path) -> None:
    """Finds modules that are missing in the wheel, even if only a function imports them."""
    modules = [
        ".".join(path.relative_to(installed).with_suffix("").parts).removesuffix(".__init__")
        for path in installed.rglob("*.py")
    ]
    wanted = sorted(set(modules) - NEEDS_OTHERS)
    program = f"from importlib import import_module\nfor name in {wanted!r}: import_module(name)"

    done = run(installed, program)

    assert done.returncode == 0, done.stderr


def test_wheel_holds_little_beside_the_client(installed: Path) -> None:
    lines = sum(len(path.read_text().splitlines()) for path in installed.rglob("*.py"))

    assert lines <= MOST_LINES


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build the wheels of the optional parts and unpack each into its own folder."""
    return {part: built(f"client/{part}", tmp_path_factory.mktemp(part)) for part in PARTS}


def test_every_optional_part_has_its_wheel_and_its_extra() -> None:
    extras = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]["optional-dependencies"]
    wheels = {package: extra for package, extra in OPTIONAL.items() if extra}

    assert sorted(path.parent.name for path in (ROOT / "client").glob("*/pyproject.toml")) == list(PARTS)
    assert {extra: extras[extra] for extra in wheels.values()} == {
        extra: [package.replace("_", "-")] for package, extra in wheels.items()
    }


def test_no_file_is_in_two_wheels(installed: Path, parts: dict[str, Path]) -> None:
    found = [
        path.relative_to(site).as_posix()
        for site in (installed, *parts.values())
        for path in site.rglob("*.py")
    ]

    assert len(found) == len(set(found))


@pytest.mark.parametrize("part", PARTS)
def test_every_module_of_a_part_is_imported(installed: Path, parts: dict[str, Path], part: str) -> None:
    """Finds modules of the core that a part needs and that no wheel contains."""
    modules = sorted(
        ".".join(path.relative_to(parts[part]).with_suffix("").parts).removesuffix(".__init__")
        for path in parts[part].rglob("*.py")
    )
    program = f"from importlib import import_module\nfor name in {modules!r}: import_module(name)"

    done = run(installed, program, part, parts[part])

    assert modules
    assert done.returncode == 0, done.stderr


COMMANDS_OF_PARTS = {
    "attestation": ["keys", "new", "k"],
    "console": ["console"],
    "lsp": ["lsp"],
    "mcp": ["mcp", "--http", "8765", "--token-file", "t"],
    "pipeline-commands": ["pipeline", "list", "--limit=3"],
    "screens": ["top", "--once"],
}


@pytest.mark.parametrize(
    ("part", "line"),
    [*COMMANDS_OF_PARTS.items(), ("attestation", ["verify", "f"]), ("screens", ["review", "last"])],
    ids=str,
)
def test_command_of_a_missing_part_says_what_to_install(installed: Path, part: str, line: list[str]) -> None:
    done = run(installed, f"from assayd_client.cli import main; raise SystemExit(main({line!r}))")

    said = f"assay: assay {line[0]} needs a package that isn't installed: install the wheel assayd-{part}\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_command_of_the_daemon_is_in_no_wheel_of_the_client(installed: Path) -> None:
    done = run(installed, "from assayd_client.cli import main; raise SystemExit(main(['compat']))")

    assert (done.returncode, done.stderr.rpartition(": ")[2]) == (2, "install the package assayd\n")


@pytest.mark.parametrize("part", PARTS)
def test_help_lists_a_part_that_is_installed_with_its_summary(
    installed: Path, parts: dict[str, Path], part: str
) -> None:
    program = "from assayd_client.cli import main; raise SystemExit(main(['--help']))"
    name, missing = COMMANDS_OF_PARTS[part][0], f"Not installed: install the wheel assayd-{part}."

    without, complete = run(installed, program), run(installed, program, part=parts[part])

    assert (without.returncode, complete.returncode) == (0, 0), complete.stderr
    assert re.search(rf"^  {name} +{missing}$", without.stdout, re.MULTILINE)
    assert re.search(rf"^  {name} +[A-Z]", complete.stdout, re.MULTILINE)
    assert missing not in complete.stdout


@pytest.mark.parametrize("part", PARTS)
def test_help_of_a_part_imports_none_of_its_libraries(
    installed: Path, parts: dict[str, Path], part: str
) -> None:
    name = COMMANDS_OF_PARTS[part][0]
    program = f"from assayd_client.cli import main; raise SystemExit(main([{name!r}, '--help']))"

    done = run(installed, program, part=parts[part])

    assert (done.returncode, f"Usage: assay {name}" in done.stdout) == (0, True), done.stderr
