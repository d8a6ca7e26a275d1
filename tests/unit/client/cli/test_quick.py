"""Lines read without a library, held against typer's reading of the same table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assayd_client.cli import _program, main, quick
from assayd_client.cli.verb import CommandVerb
from assayd_client.cli.verbs import GROUPS, TYPED, VERBS

LINES = [
    "validate extractor a.py",
    "validate extractor a.py b.py --sample-path /x --sample-path=/y --json",
    "validate --policy mine extractor --set a.b=1 --set a.c=x,y - --label k=v --label j=w",
    "validate code n.py --cases c.json --intent @words",
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
    "list --cause timeout --rule case.failed --uid 0",
    "list --limit=500",
    "show last --steps",
    "show last --code",
    "show 01ABC --form yaml --json",
    "logs last --stream stdout",
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
    "top --once --interval 0.5",
    "kinds",
    "kinds code --json",
    "version",
    "check",
    "check a.py b --sarif out.sarif --junit - --verbose",
    "lsp",
    "mcp",
    "mcp --http 8765 --token-file=t",
    "console",
    "console --port 8737 --link-file=f",
]
NOT_SURE = [
    "validate",
    "validate --help",
    "validate extractor a.py --nonsense",
    "validate extractor -- -a.py",
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
    "logs last --stream --json",
]
FAST = ("typer", "pydantic", "httpx", "rich", "click", "yaml", "argparse", "email", "importlib.metadata")


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None, dict[str, Any]]]:
    """Note what would be run, with the values that it would get."""
    seen: list[tuple[str, str | None, dict[str, Any]]] = []

    def note(verb: CommandVerb, socket: str | None, values: dict[str, Any]) -> int:
        given = {
            p.name: (values.get(p.name) or ()) if p.many else values.get(p.name, p.default)
            for p in verb.parameters
        }
        seen.append((verb.name, socket, {name: _plain(value) for name, value in given.items()}))
        return 0

    monkeypatch.setattr(CommandVerb, "call", note)
    return seen


def _plain(value: object) -> object:
    return [*value] if isinstance(value, list | tuple) else value


def by_typer(words: list[str]) -> object:
    with pytest.raises(SystemExit) as end:
        _program()(words, prog_name="assay")
    return end.value.code


@pytest.mark.parametrize("line", LINES)
def test_both_readers_run_the_same_with_the_same(line: str, called) -> None:
    words = ["--socket", "/s", *line.split()]
    assert quick.run(words) == 0
    assert by_typer(words) == 0
    first, second = called
    assert first == second


def test_every_verb_is_among_the_lines() -> None:
    assert {line.split()[0] for line in LINES} == {verb.name for verb in VERBS}


def test_every_option_is_among_the_lines() -> None:
    said = " ".join(LINES)
    options = [each.option for verb in VERBS for each in verb.parameters if each.option]
    assert [option for option in options if option not in said] == []


@pytest.mark.parametrize("line", NOT_SURE)
def test_line_that_is_not_sure_is_left_to_typer(line: str, called, capsys) -> None:
    assert quick.run(line.split()) is None
    assert called == []


@pytest.mark.parametrize(
    "line",
    [line for line in NOT_SURE if "--help" not in line and " -- " not in line and "--stream" not in line],
)
def test_what_typer_is_left_with_is_refused_by_it(line: str, called, capsys) -> None:
    assert by_typer(line.split()) == 2
    assert called == []
    assert capsys.readouterr().err


def test_function_of_every_verb_takes_what_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    import inspect
    import pkgutil

    for verb in VERBS:
        taken = inspect.signature(pkgutil.resolve_name(f"assayd_client.cli.{verb.run}")).parameters
        assert list(taken) == ["daemon", *(each.name for each in verb.parameters)], verb.name


def test_help_is_one_text_with_every_command(capsys) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert by_typer(["--help"]) == 0
    assert capsys.readouterr().out.strip() == shown.strip()
    listed = {line.split()[0] for line in shown.splitlines() if line.startswith("  ") and line[2:3].isalpha()}
    assert {verb.name for verb in VERBS} | GROUPS.keys() | TYPED.keys() | {"pipeline"} <= listed
    assert max(map(len, shown.splitlines())) <= 80


def test_verbs_of_typers_own_are_told_in_their_own_words() -> None:
    commands: Any = _program()
    told = {name: (commands.commands[name].help or "").split("\n")[0] for name in TYPED}
    assert told == {name: summary for name, (_, summary) in TYPED.items()}


def loaded(socket: str, *words: str) -> tuple[int, set[str]]:
    """Return the exit code of a line, and which of the libraries it has imported."""
    program = (
        "import sys\nfrom assayd_client.cli import main\n"
        f"code = main({['--socket', socket, *words]!r})\n"
        "print(code, *sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    code, *modules = done.stderr.splitlines()[-1].split()
    return int(code), {name for name in modules if name in FAST or name.endswith(".validator")}


@pytest.mark.parametrize(
    "words",
    [["list"], ["list", "--json"], ["show", "last"], ["logs", "last"], ["artifacts", "last"], ["version"]],
)
def test_verbs_of_loops_import_no_library(socket: str, finished: str, words: list[str]) -> None:
    assert loaded(socket, *words) == (0, set())


@pytest.mark.parametrize("words", [["cancel", "last"], ["show", "01ZZZZZZ"]])
def test_verbs_that_are_refused_import_none_either(socket: str, finished: str, words: list[str]) -> None:
    assert loaded(socket, *words) == (2, set())


def test_validating_imports_no_library(socket: str, service, tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text("def extract(path: str) -> dict:\n    return {}\n")
    assert loaded(socket, "validate", "extractor", str(source), "--sample-path", "/a") == (0, set())


def test_help_imports_no_library() -> None:
    program = (
        "import sys\nfrom assayd_client.cli import main\nmain(['--help'])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [name for name in done.stderr.split() if name in FAST] == []
