"""The editor's sheet (`python -m bench.hints.editor`): the drawn texts, and mean scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.hints import editor


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    editor.draw(folder, 5)
    return folder


def _scores(folder: Path, score: int) -> Path:
    numbers = json.loads((folder / "key.json").read_text())
    path = folder / f"scores-{score}.txt"
    path.write_text("".join(f"{number} {score}\n" for number in numbers))
    return path


@pytest.mark.slow
def test_sheet_has_the_texts_of_each_group(drawn: Path) -> None:
    key = json.loads((drawn / "key.json").read_text())
    sheet = (drawn / "sheet.md").read_text()

    groups = [one["group"] for one in key.values()]
    assert {group: groups.count(group) for group in editor.GROUPS} == {
        "pages": 100,
        "docstrings": 40,
        "strings": 40,
    }
    assert all(one["text"] in sheet for one in key.values())


@pytest.mark.slow
def test_same_seed_draws_the_same_texts(drawn: Path, tmp_path: Path) -> None:
    editor.draw(tmp_path, 5)

    assert (tmp_path / "sheet.md").read_text() == (drawn / "sheet.md").read_text()


def test_score_prints_means_and_low_texts(drawn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    editor.score(drawn, [_scores(drawn, 3), _scores(drawn, 1)])

    printed = capsys.readouterr().out
    assert "scores-3.txt pages: 3.00 of 100 texts" in printed
    assert "scores-1.txt strings: 1.00 of 40 texts" in printed
    assert "\n1 [1] " in printed


@pytest.mark.parametrize("content", ["", "1 3\n", "1 4\n"])
def test_incomplete_or_wrong_scores_are_refused(drawn: Path, content: str, tmp_path: Path) -> None:
    answers = tmp_path / "answers.txt"
    answers.write_text(content)

    with pytest.raises(SystemExit, match="expected a score"):
        editor.score(drawn, [answers])
