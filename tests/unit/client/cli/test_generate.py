"""The command line's reading of requests and files, and its output."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import cast

import pytest

from assayd.errors import RequestError, StoreError
from assayd.ports.command_line import FileOptions
from assayd_client.cli.generate import (
    GenerateOptions,
    describe_generation,
    iter_next_steps,
    read_context,
)
from assayd_client.cli.submitting import read_files
from assayd_client.cli.texts import get_submission_texts, write_texts
from assayd_pipeline.command_line import from_files
from assayd_screens.commands import run_wizard
from assayd_screens.result import AcceptedRules
from assayd_screens.session import ChainOutcome
from assayd_screens.wizard import Wizard, WizardResult

NO_FAILURE: dict[str, object] = {"last_error": None, "repair_id": None, "fallback": None}


def given(**more: object) -> GenerateOptions:
    none: dict[str, object] = {"sample_paths": (), "files": (), "database": None, "examples": ()}
    return GenerateOptions(**{**none, "inputs": None, "options": (), **more})  # type: ignore[arg-type]


def test_context_is_what_the_options_name(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"rows": [1]}')
    (tmp_path / "sales.csv").write_text("a,b\n")
    context = read_context(
        "fifth",
        given(
            sample_paths=["/a"],
            files=[tmp_path / "sales.csv"],
            examples=['{"name": "one"}'],
            inputs=tmp_path / "in.json",
            options=["task_type=report", "execute=true"],
        ),
    )
    assert context == {
        "sample_paths": ["/a"],
        "files": {"sales.csv": "a,b\n"},
        "cases": [{"name": "one"}],
        "inputs": {"rows": [1]},
        "task_type": "report",
        "execute": True,
    }


def test_database_is_a_file_or_a_schema(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"SQLite")
    (tmp_path / "x.sql").write_text("CREATE TABLE t (a);")
    assert read_context("pipeline", given(database=tmp_path / "x.db"))["database"] == {
        "base64": base64.b64encode(b"SQLite").decode()
    }
    assert read_context("pipeline", given(database=tmp_path / "x.sql"))["database"] == {
        "schema_sql": "CREATE TABLE t (a);"
    }


def test_files_are_where_validate_puts_them(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "data/sales.csv").write_text("a,b\n")
    (tmp_path / "in/more").mkdir()
    (tmp_path / "in/more/old.csv").write_text("c\n")
    files = [tmp_path / "data/sales.csv", tmp_path / "in"]
    read = {name: content for name, (_, content) in read_files(files).items()}
    validated = from_files(read, FileOptions())
    context = read_context("pipeline", given(files=files))
    assert context["files"] == validated["files"] == {"data/sales.csv": "a,b\n", "more/old.csv": "c\n"}


@pytest.mark.parametrize("example", ["[]", "{", "1"])
def test_example_that_is_no_object_is_refused(example: str) -> None:
    with pytest.raises(RequestError, match="--example"):
        read_context("pipeline", given(examples=[example]))


@pytest.mark.parametrize(
    ("payload", "texts"),
    [
        ({"code": "x"}, {"": "x"}),
        ({"text": "x", "fields": {}}, {"": "x"}),
        ({"files": {"a.py": "x"}, "manifest": {"a": 1}}, {"a.py": "x", "manifest.json": '{\n "a": 1\n}\n'}),
        (
            {"steps": [{"name": "Sum up!", "type": "sql", "content": "SELECT 1"}], "files": {"d.csv": ""}},
            {"01_sum_up.sql": "SELECT 1"},
        ),
    ],
)
def test_answer_is_one_text_or_several(payload: dict[str, object], texts: dict[str, str]) -> None:
    assert get_submission_texts({"payload": payload}) == texts


def test_one_text_is_a_file_and_several_are_a_folder(tmp_path: Path) -> None:
    write_texts({"": "x"}, tmp_path / "one.py")
    assert (tmp_path / "one.py").read_text() == "x"
    write_texts({"p/a.py": "y"}, tmp_path / "many")
    assert (tmp_path / "many" / "p" / "a.py").read_text() == "y"


@pytest.mark.parametrize("name", ["../out.py", "/etc/out.py"])
def test_file_that_leads_out_of_the_folder_is_not_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="points outside"):
        write_texts({name: "x"}, tmp_path / "inner")
    assert not (tmp_path / "out.py").exists()
    assert not Path("/etc/out.py").exists()


@pytest.mark.parametrize("out", ["Months.py", "a b.py", ".py"])
def test_yes_without_a_proper_name_is_refused_before_anything_is_asked(assay, capsys, out: str) -> None:
    assert assay("generate", "extractor", "words", "--yes", "--out", out) == 2
    assert "--name" in capsys.readouterr().err


def test_yes_without_name_and_file_is_refused(assay, capsys) -> None:
    assert assay("generate", "extractor", "words", "--yes") == 2
    assert "--name or --out" in capsys.readouterr().err


@pytest.mark.parametrize("reference", ["months@", "months@0", "months@x", "months@-1"])
def test_entry_of_no_version_is_refused(assay, capsys, reference: str) -> None:
    assert assay("library", "show", reference) == 2
    assert "NAME@VERSION" in capsys.readouterr().err


class EndedWizard:
    """Wizard screens that have ended."""

    def __init__(self, ended: WizardResult) -> None:
        self._ended = ended

    def run(self) -> WizardResult:
        return self._ended


def test_rules_that_were_accepted_are_written_and_told(tmp_path: Path, capsys) -> None:
    rules = AcceptedRules(name="months", text="extract:\n", path=tmp_path / "months.yaml")
    assert run_wizard(cast("Wizard", EndedWizard(WizardResult(code=0, rules=rules)))) == 0
    assert rules.path.read_text() == "extract:\n"
    assert f"the rules of months are in {rules.path}" in capsys.readouterr().out


def test_validated_result_that_was_left_unapproved_says_how_to_approve_it(capsys) -> None:
    outcome = ChainOutcome(attempt={"id": "01A", "verdict": "validated"})
    assert run_wizard(cast("Wizard", EndedWizard(WizardResult(code=0, outcome=outcome)))) == 0
    assert "assay library approve 01A NAME" in capsys.readouterr().out


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_in_json_is_text(number: str) -> None:
    assert read_context("code", given(options=[f"timeout_s={number}"])) == {"timeout_s": number}


def ended(**more: object) -> dict[str, object]:
    answer = {
        "number": 1,
        "attempt_id": None,
        "verdict": None,
        "duplicate": False,
        "original_error": "",
        "fix_reason": "",
        "patched_code": "",
        "form": "code",
    }
    none: dict[str, object] = {"id": "01JTC8ZK5V0000000000000001", "kind": "code", "provider": "p"}
    rest = {"attempts": [{**answer, **more}], "detail": None, "approved": None, "attempt_id": None}
    return {**none, **rest, "state": "finished", "outcome": "exhausted"}


def test_question_is_printed_with_the_command_that_answers_it() -> None:
    asked = ended(form="question", patched_code="Numbers or names?") | {"outcome": "question"}
    lines = [*describe_generation(asked, None), *iter_next_steps(asked, NO_FAILURE)]
    assert lines[1:3] == ["1. question", "   Numbers or names?"]
    assert lines[-1] == 'Answer the question: assay generation hint 01JTC8ZK5V0000000000000001 "TEXT"'


def test_failed_generation_ends_with_its_last_error_and_the_next_step() -> None:
    failed = ended() | {"attempt_id": "01JTC8ZK5V0000000000000002"}
    failure = {**NO_FAILURE, "last_error": "It fails:\n\n1. line 2: KeyError: 'x' [runtime.error]\n"}
    assert list(iter_next_steps(failed, failure)) == [
        "The last attempt failed: line 2: KeyError: 'x' [runtime.error]",
        "Show its report: assay show 01JTC8ZK5V0000000000000002",
        'Try again with a hint: assay generation hint 01JTC8ZK5V0000000000000001 "TEXT"',
    ]


def test_validated_generation_has_no_next_step_of_a_failure() -> None:
    assert not list(iter_next_steps(ended() | {"outcome": "validated"}, NO_FAILURE))
