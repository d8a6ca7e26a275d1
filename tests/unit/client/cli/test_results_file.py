"""The file with one line per path contains only whole lines of one run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd_client.applying import PathResult
from assayd_client.cli.extractor import ResultsFile
from assayd_client.trees import ResultTally

TREE = Path("/srv/reports")
RESULTS = [PathResult(path=f"/srv/reports/{number}.csv", result={"n": number}) for number in range(3)]


def written(file: Path, *, resume: bool = False, entry: str = "quarter@1") -> tuple[str | None, ResultTally]:
    with ResultsFile(file, entry, TREE, resume=resume) as results:
        tally = ResultTally()
        last = results.read(tally)
        results.write(RESULTS)
        return last, tally


def test_each_result_is_a_line(tmp_path: Path) -> None:
    written(tmp_path / "out.jsonl")

    lines = [json.loads(text) for text in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines[0] == {"path": "/srv/reports/0.csv", "entry": "quarter@1", "result": {"n": 0}}
    assert len(lines) == 3


def test_file_that_exists_is_refused_without_resume(tmp_path: Path) -> None:
    written(tmp_path / "out.jsonl")

    with pytest.raises(RequestError, match="exists; continue it with --resume"):
        written(tmp_path / "out.jsonl")


def test_resumed_file_loses_its_half_line_and_tells_the_last_path(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    written(file)
    with file.open("a") as opened:
        opened.write('{"path": "/srv/rep')

    last, tally = written(file, resume=True)

    assert (last, tally.paths) == ("/srv/reports/2.csv", 3)
    assert [json.loads(text)["path"][-5:] for text in file.read_text().splitlines()] == [
        "0.csv",
        "1.csv",
        "2.csv",
    ] * 2


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"path": "/srv/reports/a", "entry": "quarter@2", "result": {}}', "a result of quarter@2"),
        ('{"path": "/other/a", "entry": "quarter@1", "result": {}}', "a path outside /srv/reports"),
        ("not json", "not a result of"),
        ('{"path": 1}', "not a result of"),
        ("[]", "not a result of"),
    ],
)
def test_file_of_something_else_is_refused_unchanged(tmp_path: Path, line: str, fault: str) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text(line + "\n")

    with pytest.raises(RequestError, match=fault):
        written(file, resume=True)

    assert file.read_text() == line + "\n"


def test_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch) -> None:
    file, write = tmp_path / "out.jsonl", os.write

    def short(descriptor: int, content: bytes) -> int:
        if len(content) < 100:
            raise OSError(28, "No space left on device")
        return write(descriptor, content[:100])

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(RequestError, match="No space left"):
        written(file)

    kept = [json.loads(text)["path"] for text in file.read_text().splitlines()]
    assert kept == ["/srv/reports/0.csv", "/srv/reports/1.csv"]
    assert file.read_bytes().endswith(b"\n")


def test_file_in_the_tree_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(RequestError, match="name a file outside it"),
        ResultsFile(tmp_path / "out.jsonl", "q@1", tmp_path, resume=False),
    ):
        pass


def test_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "other")

    with pytest.raises(RequestError, match="symbolic links"):
        written(tmp_path / "out", resume=True)


@pytest.mark.parametrize("terminal", [True, False])
def test_terminal_gets_no_control_characters(terminal: bool, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    with ResultsFile(Path("-"), "quarter@1", TREE, resume=False) as results:
        results.write([PathResult(path="/srv/reports/\x9b2J", result={})])

    assert ("\x9b" not in capsys.readouterr().out) is terminal
