"""shfmt's output for texts, and that no text takes too long."""

from __future__ import annotations

import json

import pytest

from assayd_pipeline import worker
from assayd_pipeline.worker import parse_shell


def test_bash_gets_a_tree() -> None:
    reading = parse_shell("echo 'ä' | sort\n")
    assert reading.tree is not None
    assert json.loads(reading.tree)["Type"] == "File"


def test_other_text_gets_a_message_and_a_place_in_bytes() -> None:
    reading = parse_shell("ls\necho 'ä' )\n")
    assert (reading.tree, reading.line, reading.column) == (None, 2, 11)
    assert "`)`" in reading.message


def test_tree_that_grows_with_its_depth_is_cut_off() -> None:
    reading = parse_shell("$(" * 4_000 + "ls" + ")" * 4_000)
    assert (reading.tree, reading.line) == (None, None)
    assert reading.message


@pytest.mark.parametrize("text", ["", "\n", "# only this"])
def test_text_without_a_command_is_bash(text: str) -> None:
    assert parse_shell(text).tree is not None


def test_program_is_the_one_that_was_installed_with_us() -> None:
    assert worker._find_shfmt().endswith("/shfmt")
