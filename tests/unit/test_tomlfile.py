from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from assayd.tomlfile import FileError, map_key_lines, read_file, validate_file


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    timeout_s: float = 1.0


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    resources: Inner = Inner()
    names: dict[str, list[str]] = {}


def problems_of(path: Path, text: str) -> list[str]:
    path.write_text(text)
    with pytest.raises(FileError) as caught:
        validate_file(read_file(path, "x.file"), Outer, "x.file")
    return [str(p).removeprefix(f"{path}:") for p in caught.value.problems]


def test_unknown_key_is_reported_with_its_line_and_the_nearest_known_one(tmp_path: Path) -> None:
    found = problems_of(tmp_path / "a.toml", "# head\n\n[resources]\ntimout_s = 3\n")
    assert found == ["4: [resources] timout_s: unknown key (did you mean timeout_s?)"]


def test_bad_value_after_a_multiline_array_has_the_right_line(tmp_path: Path) -> None:
    text = '[names]\njson = [\n  "loads", # ]\n  "[",\n]\n[resources]\ntimeout_s = true\n'
    assert problems_of(tmp_path / "a.toml", text) == ["7: [resources] timeout_s: must be a number"]


def test_every_problem_of_a_file_is_reported_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    found = problems_of(tmp_path / "a.toml", "zzz = 1\n[resources]\ntimeout_s = 'x'\nmore = 'x'\n")
    assert [line.split(":")[0] for line in found] == ["1", "3", "4"]


def test_syntax_error_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("a = 1\nb = = 2\n")
    with pytest.raises(FileError) as caught:
        read_file(tmp_path / "a.toml", "x.file")
    assert caught.value.problems[0].line == 2
    assert caught.value.code == "x.file"


def test_missing_file_names_the_path_without_a_line(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="can't be read: No such file"):
        read_file(tmp_path / "none.toml", "x.file")


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"a = '\xff'\n")
    with pytest.raises(FileError, match="isn't UTF-8"):
        read_file(tmp_path / "a.toml", "x.file")


def test_lines_of_keys_in_multiline_strings_are_not_counted() -> None:
    text = 'a = """\nb = 1\n[c]\n"""\nd = \'\'\'\ne = 2\'\'\'\n[f."g.h"]\ni.j = 3\n[[k]]\nl = 4'
    assert map_key_lines(text) == {
        ("a",): 1,
        ("d",): 5,
        ("f", "g.h"): 7,
        ("f", "g.h", "i", "j"): 8,
        ("k",): 9,
        ("k", "l"): 10,
    }


def test_key_in_an_inline_table_gets_the_line_of_the_table(tmp_path: Path) -> None:
    found = problems_of(tmp_path / "a.toml", "\nresources = {timeout_s = 1, other = 2}\n")
    assert found == ["2: [resources] other: unknown key"]
