from __future__ import annotations

import os
from pathlib import Path

import pytest

from assayd.errors import ConfigError
from assayd.keys import NONE, KeySource, find_key

KEY = "sk-live-0123456789abcdef"


def refusal(place: KeySource, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as refused:
        find_key("mine", place, environment or {})
    assert refused.value.code == "repair.key"
    assert KEY not in refused.value.message
    return refused.value.message


def key_file(folder: Path, mode: int, text: str = f"{KEY}\n") -> Path:
    path = folder / "key"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_key_is_the_variables_that_is_named_before_the_usual_one() -> None:
    found = find_key(
        "mine", KeySource(variable="MINE", usual="USUAL"), {"MINE": f" {KEY}\n", "USUAL": "other"}
    )
    assert (found.text, found.source) == (KEY, "$MINE")
    assert KEY not in repr(found)


def test_missing_key_is_told_by_where_it_was_looked_for() -> None:
    assert "repair.providers.mine" in refusal(KeySource(usual="USUAL"))
    assert "USUAL isn't set" in refusal(KeySource(usual="USUAL"), {"USUAL": " "})
    assert "/nonexistent/key: No such file" in refusal(KeySource(file=Path("/nonexistent/key")))


def test_server_that_is_not_the_vendors_gets_no_key_unless_one_is_named() -> None:
    assert find_key("mine", KeySource(), {"OPENAI_API_KEY": KEY}).text == NONE


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_key_file_of_the_owner_alone_is_read(tmp_path: Path, mode: int) -> None:
    assert find_key("mine", KeySource(file=key_file(tmp_path, mode)), {}).text == KEY


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o602, 0o601, 0o660, 0o644])
def test_key_file_that_others_can_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    assert "chmod 0600" in refusal(KeySource(file=key_file(tmp_path, mode)))


def test_key_file_that_is_none_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "not a regular file" in refusal(KeySource(file=tmp_path / "pipe"))
    assert "not a regular file" in refusal(KeySource(file=tmp_path))


@pytest.mark.parametrize("text", ["", "two words", "a\nb", "\x1b", "ключ", "x" * 5000, f"{KEY}\r\n x: y"])
def test_what_cannot_stand_in_a_header_is_no_key(tmp_path: Path, text: str) -> None:
    assert "one word" in refusal(KeySource(file=key_file(tmp_path, 0o600, text)))
    if text:
        assert "one word" in refusal(KeySource(variable="MINE"), {"MINE": text})
