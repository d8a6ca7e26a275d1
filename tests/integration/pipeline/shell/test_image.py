"""The shell image: its contents, and that real bash agrees with the static checks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient

from assayd.imaging.recipe import load_recipe
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd_pipeline.shell import check_script
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.shell.parse.resolve import PREFIXES, OptionSyntax
from assayd_pipeline.shell.rules.operands import SED, TOOLS
from assayd_pipeline.worker import parse_shell
from support.engines import bare_container

TESTS = Path(__file__).resolve().parents[3]
INSIDE = (TESTS / "support/guests/in_shell_image.py").read_text()
POLICY = load_policies([get_shared_data_path("policies")]).get("pipeline")


@pytest.fixture(scope="module")
def client(docker_host: str) -> Iterator[APIClient]:
    with bare_container.bare_client(docker_host) as made:
        yield made


def ask(client: APIClient, question: object) -> Any:
    wanted = bare_container.production(client, INSIDE, json.dumps(question))
    return json.loads(bare_container.output_of(client, {**wanted, "Image": "assayd/shell:latest"}))


def runs(client: APIClient, scripts: list[str]) -> list[dict[str, Any]]:
    ended: list[dict[str, Any]] = ask(client, {"scripts": scripts})
    return ended


@pytest.mark.engine
def test_image_has_the_listed_programs_and_no_others(client: APIClient) -> None:
    found = ask(client, None)
    recipe = load_recipe(get_shared_data_path("images"), "shell")

    scripts = [name for name, _ in recipe.scripts]
    assert found["programs"] == sorted(f"/{name}" for name in (*recipe.executables, *scripts))
    assert found["privileged"] == []
    assert found["left"] == []


@pytest.mark.engine
def test_path_of_a_step_shows_what_the_shipped_policy_allows(client: APIClient) -> None:
    assert set(ask(client, None)["path"]) == POLICY.commands.allowed


@pytest.mark.engine
def test_legitimate_scripts_do_their_work_in_the_image(client: APIClient) -> None:
    table = (TESTS / "unit/pipeline/shell/legitimate.txt").read_text()
    parts = re.split(r"^#### (.*)\n", table, flags=re.MULTILINE)[1:]

    ended = runs(client, parts[1::2])

    failed = [(name, end) for name, end in zip(parts[::2], ended, strict=True) if end["status"] != 0]
    assert failed == []
    assert len(ended) >= 40


# Their words may begin with a dash; jq and find have rules of their own.
PLAIN = {"[", "echo", "expr", "false", "find", "jq", "printenv", "printf", "seq", "sleep", "test", "true"}


def grammars() -> dict[str, OptionSyntax]:
    tools = {name: tool.syntax for name, tool in TOOLS.items()}
    prefixes = {name: prefix.syntax for name, prefix in PREFIXES.items()}
    known = {**tools, **prefixes, "sed": SED.syntax}
    return {name: known[name] for name in (POLICY.commands.allowed & known.keys()) - PLAIN}


@pytest.mark.engine
def test_options_with_a_value_are_those_of_the_tools_in_the_image(client: APIClient) -> None:
    known = grammars()

    said = ask(client, {"tools": sorted(known)})

    wrong = []
    for name, (short, long) in said.items():
        letters = known[name].short_options
        wrong += [(name, letter) for letter, takes in short.items() if (letters.get(letter) == ":") != takes]
        wrong += [(name, option) for option in long if not known[name].names.get(option)]
    # The value of this one is optional, although the help doesn't show it.
    assert wrong == [("xargs", "max-lines")]
    assert len(said) == len(known) > 35


@pytest.mark.engine
def test_xargs_takes_glued_values_only_where_the_rules_say_so(client: APIClient) -> None:
    options = [
        "-i",
        "-l",
        "-e",
        "--replace",
        "--max-lines",
        "--eof",
        "-ix",
        "-l1",
        "-n 1",
        "-L 1",
        "-I x",
        "-E x",
    ]
    script = "".join(f"echo a | xargs {option} echo ran\n" for option in options)

    (ended,) = runs(client, [script])

    assert (ended["status"], ended["stdout"].count("ran")) == (0, len(options))
    for option in options:
        reader.install_reader(parse_shell)
        found = check_script(f"echo a | xargs {option} rm x", POLICY.commands).findings
        assert [finding.rule for finding in found] == ["command.blocked"], option


@pytest.mark.engine
def test_tools_have_no_shell_to_hand_commands_to(client: APIClient) -> None:
    scripts = ["awk 'BEGIN { exit system(\"exit 0\") }'", "echo a | sed 's/a/exit 0/e'"]

    assert all(end["status"] != 0 for end in runs(client, scripts))


@pytest.mark.engine
@pytest.mark.parametrize(
    "script",
    [
        "echo \"${x:-'$(rm data/notes.txt)'}\"",
        "x='a[$(rm data/notes.txt)]'; ((x))",
        "declare -a x='($(rm data/notes.txt))'",
        "[[ x == @($(rm data/notes.txt)) ]]",
        "f() { local -n name=$1; $name data/notes.txt; }; y=rm; f y",
    ],
)
def test_command_that_no_rule_sees_is_not_in_the_image(client: APIClient, script: str) -> None:
    reader.install_reader(parse_shell)
    assert [f for f in check_script(script, POLICY.commands).findings if f.rule == "command.blocked"] == []

    (ended,) = runs(client, [f"{script}\ncat data/notes.txt"])

    assert "rm: command not found" in ended["stderr"]
    assert ended["stdout"].strip().endswith("end")


@pytest.mark.engine
@pytest.mark.parametrize(
    "script",
    [
        "awk '{ f = \"/etc/x\"; print > f }' data/notes.txt",
        "sed 'w /etc/x' data/notes.txt",
        'path=tmp/../../etc/x; echo x > "${path#tmp/}"',
    ],
)
def test_file_that_no_rule_sees_cannot_be_written(client: APIClient, script: str) -> None:
    reader.install_reader(parse_shell)
    assert not any(f.is_error for f in check_script(script, POLICY.commands).findings)

    (ended,) = runs(client, [script])

    assert ended["status"] != 0
    assert "Read-only file system" in ended["stderr"]
