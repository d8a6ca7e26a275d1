import json
from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd_client.cli.submitting import (
    ValidateRequest,
    add_file_label,
    build_submission,
    parse_settings,
    read_cases,
    read_files,
)
from support.daemons.fake_service import GOLDEN

CODE = "def extract(path: str) -> dict:\n    return {}\n"


@pytest.fixture
def source(tmp_path) -> str:
    file = tmp_path / "extractor.py"
    file.write_text(CODE)
    return str(file)


@pytest.fixture
def validate(assay, source):
    return lambda *more: assay("validate", "extractor", source, "--sample-path", "/data/a.csv", *more)


@pytest.mark.parametrize(
    ("outcome", "code", "line"),
    [
        ("validated", 0, "Validation: ✓ Passed with warnings (2/2 paths, avg 2.3ms)"),
        ("failed_at_run", 1, "Validation: ✗ Failed at sandbox (1/2 paths, avg 1.2ms): 1 error"),
        ("refused", 1, "Validation: ✗ Failed at security: 1 error"),
        ("broken", 3, "Validation: ! Internal error; the code wasn't judged"),
    ],
)
def test_the_verdict_is_shown_and_is_the_exit_code(validate, service, capsys, outcome, code, line) -> None:
    service.outcome = outcome
    assert validate() == code
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1] == line
    assert captured.err == ""


def test_json_is_the_finished_attempt_and_nothing_else(validate, capsys) -> None:
    assert validate("--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["report"]["status"] == "VALIDATED"
    assert captured.err == ""


def test_refused_code_is_named_by_its_file(validate, source, capsys) -> None:
    with Path(source).open("a") as file:
        file.write("#" * 2**20)
    assert validate() == 2
    assert capsys.readouterr().err == f"assay: {source}: payload.code is larger than 1 MiB\n"


def test_cases_that_are_not_objects_are_refused_by_their_number(tmp_path, source) -> None:
    cases = tmp_path / "cases.json"
    cases.write_text('[{"path": "/a", "expected": {}}, 1]')
    with pytest.raises(RequestError, match=r"cases\.json: case 2 isn't a JSON object"):
        read_cases(cases)


def test_what_the_line_says_is_what_is_submitted(validate, service) -> None:
    options = ["--policy", "mine", "--set", "resources.timeout_s=5", "--set", "resources.memory_mb=64"]
    told = ["--webhook", "https://ci.example/a"]
    assert validate("--sample-path", "/b", *options, *told, "--label", "category=weather") == 0
    (submission,) = service.submissions.values()
    assert json.loads(submission.document) == {
        "kind": "extractor",
        "labels": {"category": "weather", "file": "extractor.py"},
        "overrides": {"resources": {"timeout_s": 5.0, "memory_mb": 64}},
        "parent_id": None,
        "payload": {"code": CODE, "sample_paths": ["/data/a.csv", "/b"]},
        "policy": "mine",
        "webhook": "https://ci.example/a",
    }


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--label", "novalue"], "--label must be key=value"),
        (["--set", "resources.timeout_s"], "--set must be key=value"),
        (["--label", "a=Not Allowed"], "labels.a"),
        (["--input", "/nowhere.json"], "/nowhere.json: No such file or directory"),
    ],
)
def test_a_request_that_cannot_be_is_refused_in_one_line(validate, service, capsys, more, said) -> None:
    assert validate(*more) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert service.attempts == {}


def test_an_unknown_kind_names_the_known_ones(assay, source, capsys) -> None:
    assert assay("validate", "nothing", source) == 2
    assert "unknown kind 'nothing'; use one of " in capsys.readouterr().err


def test_a_folder_stands_for_its_files(tmp_path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "adapter.py").write_bytes(b"a")
    (tmp_path / "tests" / "test_adapter.py").write_bytes(b"b")
    read = {name: content for name, (_, content) in read_files([tmp_path]).items()}
    assert read == {"adapter.py": b"a", "tests/test_adapter.py": b"b"}


def test_a_link_in_a_folder_is_refused(tmp_path) -> None:
    (tmp_path / "adapter.py").write_bytes(b"a")
    (tmp_path / "key.txt").symlink_to("/etc/hostname")
    with pytest.raises(RequestError, match="symbolic link"):
        read_files([tmp_path])


def test_a_module_is_submitted_as_a_folder(tmp_path) -> None:
    (tmp_path / "manifest.yaml").write_text("category: weather\nplatform: open_meteo\n")
    (tmp_path / "adapter.py").write_text("x = 1\n")
    nothing = {"input": None, "sample_paths": (), "policy": None, "settings": (), "labels": (), "options": ()}
    submission, _ = build_submission(ValidateRequest(kind="module", files=[tmp_path], **nothing))
    assert submission == {
        "kind": "module",
        "payload": {
            "manifest": {"category": "weather", "platform": "open_meteo"},
            "files": {"adapter.py": "x = 1\n"},
        },
        "labels": {"file": tmp_path.name},
    }


@pytest.mark.parametrize(
    ("given", "file", "expected"),
    [
        ({"a": "b"}, "total.py", {"a": "b", "file": "total.py"}),
        ({"file": "mine"}, "total.py", {"file": "mine"}),
        ({}, "total of sales.py", {}),
        ({}, "-", {}),
    ],
)
def test_name_of_the_file_is_a_label_if_it_can_be_one(given, file, expected) -> None:
    assert add_file_label(given, [Path(file)]) == expected


def test_two_files_of_one_name_are_refused(tmp_path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.py").write_bytes(b"")
    with pytest.raises(RequestError, match="two files are named"):
        read_files([tmp_path / "a" / "x.py", tmp_path / "b" / "x.py"])


def test_settings_are_read_as_json_where_they_are() -> None:
    assert parse_settings(["a.b=1", "a.c=text", "d=[1]"]) == {"a": {"b": 1, "c": "text"}, "d": [1]}


def test_a_setting_below_a_value_is_refused() -> None:
    with pytest.raises(RequestError, match="already has a value"):
        parse_settings(["a=1", "a.b=2"])


def test_settings_with_commas_are_lists() -> None:
    assert parse_settings(["a.b=x,y", "a.c=443, 80", "a.d=x,", 'a.e=["x,y"]']) == {
        "a": {"b": ["x", "y"], "c": [443, 80], "d": ["x"], "e": ["x,y"]}
    }


def test_cases_and_words_are_submitted_and_the_paths_of_cases_are_tried(
    assay, source, service, tmp_path
) -> None:
    cases = [{"name": "one", "path": "/data/x.csv", "expected": {"a": 1}}]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    (tmp_path / "words.txt").write_text("take the quarter apart\n")
    words = f"@{tmp_path / 'words.txt'}"
    cases_file = str(tmp_path / "cases.json")
    assert assay("validate", "extractor", source, "--cases", cases_file, "--intent", words) == 0
    (submission,) = service.submissions.values()
    document = json.loads(submission.document)
    assert document["intent"] == "take the quarter apart\n"
    assert document["payload"] == {"code": CODE, "sample_paths": ["/data/x.csv"], "cases": cases}


@pytest.mark.parametrize("text", ["{}", "[]", "["])
def test_file_without_cases_is_refused(validate, tmp_path, capsys, text) -> None:
    (tmp_path / "cases.json").write_text(text)
    assert validate("--cases", str(tmp_path / "cases.json")) == 2
    assert "cases.json" in capsys.readouterr().err


def test_retry_context_is_printed_alone(validate, service, capsys) -> None:
    service.outcome = "failed_at_run"
    assert validate("--retry-context") == 1
    told = json.loads((GOLDEN / "failed_at_run.json").read_text())["report"]["retry_context"]
    assert capsys.readouterr().out == f"{told}\n"
    service.outcome = "validated"
    assert validate("--retry-context") == 0
    assert capsys.readouterr().out == ""


def test_fields_are_printed_alone(validate, service, capsys) -> None:
    assert validate("--fields", "verdict") == 0
    assert json.loads(capsys.readouterr().out) == {"verdict": "validated"}
    assert validate("--fields", "nothing") == 2
