"""The kinds and options of a project's files, from its `.assay.toml`."""

import os
from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd_client.cli.check import build_submission, find_project, read_project

TOML = """
[[file]]
match = "extractors/*.py"
kind = "extractor"
sample_paths = ["/a", "/b"]
policy = "extractor"

[[file]]
match = "nodes/*.py"
kind = "code"
input = { a = 1 }
cases = [{ name = "one", inputs = { a = 1 }, expected = 1 }]

[[file]]
match = "adapters/*/*.py"
kind = "module"
"""
FILES = ("extractors/x.py", "nodes/n.py", "adapters/one/adapter.py", "adapters/one/manifest.json", "other.py")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".assay.toml").write_text(TOML)
    for name in FILES:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}" if name.endswith("json") else f"# {name}\n")
    return tmp_path


def submitted(root: Path, name: str, **more) -> dict:
    project = find_project(root / name)
    table = project.find_file_table(root / name)
    return build_submission(root / name, table, **more)[0]


def test_file_is_submitted_as_its_table_says(root: Path) -> None:
    assert submitted(root, "extractors/x.py") == {
        "kind": "extractor",
        "policy": "extractor",
        "payload": {"code": "# extractors/x.py\n", "sample_paths": ["/a", "/b"]},
        "labels": {"file": "x.py"},
    }
    assert submitted(root, "nodes/n.py")["payload"] == {
        "code": "# nodes/n.py\n",
        "inputs": {"a": 1},
        "cases": [{"name": "one", "inputs": {"a": 1}, "expected": 1}],
    }


def test_folder_of_an_adapter_is_submitted_as_one(root: Path) -> None:
    payload = submitted(root, "adapters/one/adapter.py")["payload"]
    assert (payload["manifest"], list(payload["files"])) == ({}, ["adapter.py"])


def test_text_that_is_not_saved_yet_is_taken(root: Path) -> None:
    assert submitted(root, "extractors/x.py", newer=lambda _: b"new")["payload"]["code"] == "new"


def test_project_lists_each_submission_once(root: Path) -> None:
    (root / "adapters/one/test_adapter.py").write_text("")
    project = find_project(root)
    found = [str(path.relative_to(root)) for path in project.files()]
    assert found == ["adapters/one/adapter.py", "extractors/x.py", "nodes/n.py"]


def test_file_that_no_table_fits_is_nothing_to_us(root: Path) -> None:
    assert find_project(root).find_file_table(root / "other.py") is None
    assert find_project(root).find_file_table(Path("/elsewhere/x.py")) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "only [[file]] tables are allowed"),
        ("[[file]]\nmatch = 'x'\n", "requires match and kind"),
        (
            "[[file]]\nmatch = 'x'\nkind = 'code'\nimage = 'mine'\n",
            "unknown key image; known keys: match, kind",
        ),
        (
            "[[file]]\nmatch = 'x'\nkind = 'code'\nsample_path = []\n",
            "unknown key sample_path (did you mean sample_paths?)",
        ),
        ("[[file]]\nmatch = 'x'\nkind = 1\n", "kind must be a string, not 1"),
        ("file = [1]\n", "[[file]] must be a table, not 1"),
        ("[[file]\n", ".assay.toml: "),
    ],
)
def test_what_is_wrong_in_the_file_is_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / ".assay.toml").write_text(text)

    with pytest.raises(RequestError) as raised:
        find_project(tmp_path)
    assert said in raised.value.message


def test_without_a_file_there_is_no_project(tmp_path: Path) -> None:
    assert find_project(tmp_path / "deep/x.py") is None


@pytest.mark.parametrize("name", [".", ".assay.toml"])
def test_file_that_others_can_write_is_not_believed(root: Path, name: str) -> None:
    (root / name).chmod(0o777)

    with pytest.raises(RequestError, match="another user could have written it"):
        find_project(root / "extractors/x.py")


def test_file_of_another_user_is_not_believed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = os.stat_result((0o100644, 0, 0, 1, os.geteuid() + 1, 0, 0, 0, 0, 0))
    monkeypatch.setattr(Path, "stat", lambda _path, **_options: found)

    with pytest.raises(RequestError, match="must belong to you"):
        read_project(root / ".assay.toml")
