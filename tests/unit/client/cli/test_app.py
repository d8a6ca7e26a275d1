"""The table of commands, and how lines are parsed with it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from assayd_client.cli import main
from assayd_client.cli.app import COMMANDS, app

LINES = [
    "nodes --json",
    "review last --provider rules",
    "generate code words --provider p --sample-path /a --database d.db --sample-rows --file f --example {}",
    "generate code words --input i.json --option a=b --policy p --max-attempts 3 --label k=v --webhook https://h",
    "generate code words --out o --yes --name n --json",
    "validate extractor a.py",
    "audit --since 24h --verify --json",
    "verify f --key k --attestation a --policy p --kind c --batch --max-age 24h --allow-reported --json",
    "validate extractor a.py b.py --sample-path /x --sample-path=/y --sample-paths - --sample-tree . --json",
    "validate --policy mine extractor --set a.b=1 --set a.c=x,y - --label k=v --label j=w",
    "validate code n.py --cases c.json --tests t.py --entry f --intent @words",
    "validate pipeline a.sql b.db --sample-rows --repair claude",
    "validate code --input in.json n.py --option timeout_s=3 --repair rules --yaml",
    "validate code n.py --repair rules --out new.py --in-place",
    "validate code n.py --webhook https://ci.example/a",
    "validate fifth --form yaml --policy first --policy second",
    "validate script --sample-path= x.py",
    "validate code n.py --fields verdict,report.findings --retry-context",
    "validate code n.py --sarif - --junit=out.xml --watch",
    "show last --fields verdict",
    "list",
    "list --state running --verdict failed --kind code --label a=b --label c=d --since 2026-01-01T00:00:00Z",
    "list --limit 5 --json",
    "list --wide",
    "list --node n --distrusted",
    "list --cause timeout --rule case.failed --uid 0",
    "list --limit=500",
    "show last --steps",
    "show last --code",
    "show 01ABC --form yaml --json",
    "logs last --stream stdout",
    "evaluate p s --k 1,10 --timeout 5 --name n --concurrency 4 --junit f --json",
    "events",
    "events last --json",
    "events --follow",
    "cancel 01ABC",
    "replay --json last",
    "artifacts last --extract out",
    "doctor --json",
    "gc --dry-run",
    "backup there --state-dir here",
    "metrics",
    "metrics --answers --weeks 4 --kind code --json",
    "top --once --interval 0.5",
    "kinds",
    "kinds code --json",
    "version",
    "check",
    "check a.py b --sarif out.sarif --junit - --verbose",
    "lsp",
    "mcp",
    "mcp --http 8765 --token-file=t",
    "compat",
    "compat --listen h:1 --certificate c.pem --key k.pem",
    "compat --listen=unix:s --concurrency 2 --policy python=testing",
    "console",
    "console --port 8737 --link-file=f",
]
WRONG = [
    "validate",
    "validate extractor a.py --nonsense",
    "validate extractor --sample-path",
    "validate extractor --json=yes a.py",
    "list --limit 0",
    "list --limit 501",
    "list --limit many",
    "list --lim 5",
    "list more",
    "show",
    "show one two",
    "top --interval 0.1",
]
FAST = ("pydantic", "httpx", "rich", "yaml", "argparse", "email", "importlib.metadata")
"""Libraries that take long to import, which no line of a loop may need."""


def command_of(name: str) -> Any:
    """Return the command that typer creates from its function."""
    return typer.main.get_command(app).get_command(None, name)  # type: ignore[attr-defined]


def read(line: str) -> dict[str, Any]:
    """Return the parameters that a line passes to its function, without calling it."""
    name, *words = line.split()
    context: Any = command_of(name).make_context(name, words)
    return dict(context.params)


@pytest.mark.parametrize("line", LINES)
def test_line_is_read_with_every_option_that_it_has(line: str) -> None:
    values = read(line)
    named = {word.partition("=")[0] for word in line.split() if word.startswith("--")}
    set_by_hand = [value for value in values.values() if value not in (None, False)]
    assert len(set_by_hand) >= len(named)


def test_values_of_a_line_reach_the_function_as_it_wants_them() -> None:
    values = read("validate code a.py - --set a.b=1 --set c=x,y --sample-path= --cases c.json")
    assert [str(file) for file in values["files"]] == ["a.py", "-"]
    assert [*values["setting"], *values["sample_path"]] == ["a.b=1", "c=x,y", ""]
    assert (str(values["cases"]), values["as_json"], values["policy"]) == ("c.json", False, None)
    assert read("validate --policy first code --policy second")["policy"] == "second"
    assert [str(file) for file in read("validate extractor -- -a.py")["files"]] == ["-a.py"]


def test_every_function_of_the_table_is_among_the_lines() -> None:
    functions = {name for name in COMMANDS if not hasattr(command_of(name), "commands")}
    assert {line.split()[0] for line in LINES} == functions


def test_every_option_is_among_the_lines() -> None:
    said = " ".join(LINES)
    functions = [command_of(line.split()[0]) for line in LINES]
    options = {option for each in functions for p in each.params for option in p.opts if option[:2] == "--"}
    assert [option for option in options - {"--help"} if option not in said] == []


@pytest.mark.parametrize("line", WRONG)
def test_line_that_cannot_be_is_refused(line: str, capsys) -> None:
    assert main(line.split()) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("vaildate", "Did you mean 'validate'"),
        ("batch rnu", "Did you mean 'run'?"),
        ("list --limt 3", "(Possible options: --limit)"),
    ],
)
def test_slip_is_answered_with_what_was_meant(line: str, meant: str, capsys) -> None:
    assert main(line.split()) == 2
    assert meant in capsys.readouterr().err


def test_every_command_ends_itself_and_says_what_it_is_for() -> None:
    for name, place in COMMANDS.items():
        command = command_of(name)
        assert command.help, place
        if not hasattr(command, "commands"):
            assert inspect.signature(command.callback).return_annotation in (None, "None"), place


def test_help_names_every_command_within_80_columns(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    listed = {line.split()[0] for line in shown.splitlines() if line.startswith("  ") and line[2:3].isalpha()}
    assert COMMANDS.keys() | {"pipeline"} <= listed
    assert max(map(len, shown.splitlines())) <= 80


def test_version_is_a_command_and_an_option(capsys) -> None:
    assert main(["version"]) == main(["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert first.startswith("assay ")


def loaded(*words: str) -> tuple[int, set[str]]:
    """Return the exit code of a line, and the libraries that it imported."""
    program = (
        "import sys\nfrom assayd_client.cli import main\n"
        f"code = main({list(words)!r})\n"
        "print(code, *sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    code, *modules = done.stderr.splitlines()[-1].split()
    return int(code), {name for name in modules if name in FAST or name.endswith(".validator")}


@pytest.mark.parametrize(
    "words",
    [["list"], ["list", "--json"], ["show", "last"], ["logs", "last"], ["artifacts", "last"], ["version"]],
)
def test_verbs_of_loops_import_no_large_library(socket: str, finished: str, words: list[str]) -> None:
    assert loaded("--socket", socket, *words) == (0, set())


def test_validate_imports_no_large_library(socket: str, tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text("def extract(path: str) -> dict:\n    return {}\n")
    line = ("validate", "extractor", str(source), "--sample-path", "/a")
    assert loaded("--socket", socket, *line) == (0, set())


def test_help_imports_no_large_library() -> None:
    # Kinds of other packages may have commands, which their entry points tell: 7 ms of importlib.metadata.
    assert loaded("--help") == (0, {"email", "importlib.metadata"})


def test_line_imports_the_modules_of_no_other_command(socket: str) -> None:
    program = (
        "import sys\nfrom assayd_client.cli import main\n"
        f"main(['--socket', {socket!r}, 'list'])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = set(done.stderr.split())
    places = {place.partition(":")[0] for place in COMMANDS.values()}
    homes = places | {f"assayd_client.cli.{place}" for place in places}
    assert homes & modules == {"assayd_client.cli.attempts"}


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for each in getattr(command, "commands", {}):
        yield from _commands(command.commands[each], f"{name} {each}")


def test_help_of_commands_and_options_is_one_plain_sentence() -> None:
    every = [
        named
        for name in COMMANDS
        for named in _commands(typer.main.get_command(app).get_command(None, name), name)
    ]
    summaries = {name: (command.help or "").split("\n")[0] for name, command in every}
    helps = {
        f"{name} {parameter.name}": parameter.help
        for name, command in every
        for parameter in command.params
        if parameter.name != "help" and getattr(parameter, "help", None)
    }
    vague = ("The ", "It ", "That ", "There ", "How ", "What ", "Which ", "Whether ")

    assert len(helps) > 200
    for texts in (summaries, helps):
        assert {name: text for name, text in texts.items() if not text.endswith(".")} == {}
        assert {name: text for name, text in texts.items() if len(text) > 150} == {}
        assert {name: text for name, text in texts.items() if text.startswith(vague)} == {}
