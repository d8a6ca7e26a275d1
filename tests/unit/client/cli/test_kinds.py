"""`assay kinds`, and the parts of the command line that kinds provide."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from assayd.errors import RequestError
from assayd.kinds import registry
from assayd_client.cli import main
from assayd_client.cli.kinds import find_kind, get_command_line, get_form_printer


@pytest.fixture
def own(service):
    service.kinds = dict(registry.load_own_validators())
    return service


@pytest.mark.usefixtures("own")
def test_kinds_are_listed(assay, capsys) -> None:
    assert assay("kinds") == 0
    shown = capsys.readouterr().out
    assert all(kind in shown for kind in registry.list_own_kinds())


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("kind", registry.list_own_kinds())
def test_each_kind_is_described_with_an_example_that_it_takes(assay, capsys, kind: str) -> None:
    assert assay("kinds", kind) == 0
    shown = capsys.readouterr().out
    validator = registry.load_own_validator(kind)
    assert f"{kind}: policy {validator.default_policy}, image {validator.image}" in shown
    assert all(f"  {rule.id} (" in shown for rule in validator.rules)
    assert all(f"  {name}: " in shown for name in validator.payload.model_fields)
    assert all(f"--option {option.name}=" in shown for option in registry.load_command_line(kind).options)
    example = json.loads(shown.partition("a valid payload:\n")[2])
    assert validator.payload.model_validate_json(json.dumps(example))


@pytest.mark.usefixtures("own")
def test_json_is_what_the_daemon_says(assay, capsys) -> None:
    assert assay("kinds", "--json") == 0
    assert {kind["kind"] for kind in json.loads(capsys.readouterr().out)["kinds"]} == set(
        registry.list_own_kinds()
    )
    assert assay("kinds", "fifth", "--json") == 0
    assert json.loads(capsys.readouterr().out)["forms"] == ["yaml"]


def test_kind_that_the_daemon_has_not_is_told(assay, capsys) -> None:
    assert assay("kinds", "nothing") != 0
    assert "unknown kind 'nothing'" in capsys.readouterr().err


def test_commands_of_kinds_stand_among_those_of_the_program(capsys) -> None:
    assert main(["--help"]) == 0
    assert "  pipeline " in capsys.readouterr().out
    assert main(["pipeline", "--help"]) == 0
    assert "commit" in capsys.readouterr().out


def test_form_that_a_kind_has_not_is_refused_with_those_it_has() -> None:
    with pytest.raises(RequestError, match="it supports yaml; use --json"):
        get_form_printer("fifth", "steps")


def test_steps_of_a_kind_without_steps_are_refused(assay, finished, capsys) -> None:
    assert assay("show", finished, "--steps") == 2
    assert "--json" in capsys.readouterr().err


def test_kind_that_nobody_here_knows_is_shown_the_usual_way() -> None:
    assert get_command_line("of-another-machine").case == "case"
    with pytest.raises(RequestError, match="use one of code, extractor"):
        find_kind("of-another-machine")


def test_showing_a_report_imports_no_validator() -> None:
    program = (
        "import sys; from assayd_client.cli.report import iter_report_lines\n"
        "from assayd_client.cli.kinds import get_command_line\n"
        "print(get_command_line('pipeline').case, *(n for n in sys.modules if n.endswith('.validator')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["step"]
