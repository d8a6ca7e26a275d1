"""Validating a project's files, for hooks and build servers."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".assay.toml").write_text(
        '[[file]]\nmatch = "x/*.py"\nkind = "extractor"\nsample_paths = ["/a"]\n'
    )
    (tmp_path / "x").mkdir()
    for name in ("one.py", "two.py"):
        (tmp_path / "x" / name).write_text("a = 1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("outcome", "code"), [("validated", 0), ("refused", 1), ("broken", 3)])
def test_worst_verdict_is_the_exit_code(assay, service, root, capsys, outcome, code) -> None:
    service.outcome = outcome

    assert assay("check") == code
    assert len(service.submissions) == 2
    assert capsys.readouterr().out.count("Validation: ") == 2


def test_named_files_alone_are_validated_and_others_passed_over(assay, service, root) -> None:
    (root / "readme.md").write_text("words")

    assert assay("check", "readme.md", "x/two.py") == 0
    assert len(service.submissions) == 1


def test_reports_hold_all_files(assay, service, root, capsys) -> None:
    service.outcome = "failed_at_run"

    assert assay("check", "--sarif", "-", "--junit", "out.xml") == 1
    runs = json.loads(capsys.readouterr().out)["runs"]
    places = [
        run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for run in runs
    ]
    assert places == ["x/one.py", "x/two.py"]
    assert ET.fromstring((root / "out.xml").read_text()).attrib["failures"] == "2"


def test_commit_that_changes_nothing_of_ours_passes_and_says_so(assay, root, capsys) -> None:
    (root / "readme.md").write_text("words")

    assert assay("check", "readme.md", "--sarif", "-") == 0
    captured = capsys.readouterr()
    assert "nothing to check: no [[file]] table in .assay.toml matches" in captured.err
    assert json.loads(captured.out)["runs"] == []


def test_project_without_anything_to_check_is_an_error(assay, root, capsys) -> None:
    (root / ".assay.toml").write_text('[[file]]\nmatch = "none/*"\nkind = "code"\n')

    assert assay("check") == 2
    assert "no [[file]] table in .assay.toml matches" in capsys.readouterr().err


def test_folder_without_a_project_is_an_error(assay, tmp_path_factory, capsys) -> None:
    assert assay("check", str(tmp_path_factory.mktemp("empty"))) == 2
    assert "no .assay.toml in its folder or a parent folder" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["x/none.py"], ["none"], ["x/one.py", "x/none.py"]])
def test_file_or_folder_that_does_not_exist_is_refused_before_anything_is_validated(
    assay, service, root, capsys, words
) -> None:
    assert assay("check", *words) == 2
    assert capsys.readouterr().err == f"assay: {words[-1]}: no such file or directory\n"
    assert service.submissions == {}


@pytest.mark.parametrize("text", ["[[file]]\nsample_path = []\n", "[[file]\n"])
def test_wrong_project_file_is_the_users_fault(assay, root, capsys, text) -> None:
    (root / ".assay.toml").write_text(text)

    assert assay("check") == 2
    assert capsys.readouterr().err.startswith(f"assay: {root}/.assay.toml: ")
