"""Blocks in the operators' guide are marked, so that tests know which to run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from support.texts import guide

NOT_RUN = {
    "cluster.md": 10,
    "images.md": 9,
    "install.md": 7,
    "policies.md": 1,
    "rootless.md": 3,
    "upgrade.md": 1,
}
"""How many blocks of a page no test runs: they fetch packages or images, or need what our machines lack."""


@pytest.mark.parametrize("page", guide.PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    for block in guide.blocks(page):
        assert block.language in {"sh", "toml", "json", "python"}
        if block.language == "sh":
            assert block.word in {"", "system", "elsewhere", "rehearsal", "gateway"}
    assert page.read_text().count("\n```") == 2 * len(guide.blocks(page))


@pytest.mark.parametrize("page", guide.PAGES, ids=lambda page: page.name)
def test_no_command_stands_outside_of_a_block(page: Path) -> None:
    assert (
        re.findall(r"^ {4,}(?:\$ )?(?:assayd?|systemctl|dpkg|cp|mv) .*", page.read_text(), re.MULTILINE) == []
    )


def test_what_no_test_runs_is_counted() -> None:
    counted = {page.name: len(guide.commands(page, "elsewhere")) for page in guide.PAGES}
    assert {name: count for name, count in counted.items() if count} == NOT_RUN


def test_settings_that_are_shown_are_settings() -> None:
    from assayd.settings import Settings

    shown = [
        tomllib.loads(block.text)
        for page in guide.PAGES
        for block in guide.blocks(page)
        if block.language == "toml" and not block.word
    ]
    # What is not a setting is refused; what is shown is read as it stands.
    kept = [Settings.model_validate(settings).model_fields_set for settings in shown]
    assert kept == [set(settings) for settings in shown]
    assert shown
