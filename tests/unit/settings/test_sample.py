"""The settings file that documents every setting is complete, correct, and without effect."""

from __future__ import annotations

import grp
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from assayd.settings import (
    Settings,
    get_environment_variable_name,
    iter_documented_settings,
    list_effective_settings,
    load_settings,
    render_sample_settings,
)

Config = Callable[[str], Path]
SHIPPED = Path(__file__).resolve().parents[3] / "deploy/etc/assayd.toml"


def test_shipped_file_is_the_sample() -> None:
    assert SHIPPED.read_text() == render_sample_settings(), "the settings have changed: make samples"


def test_sample_changes_nothing(config: Config) -> None:
    config(render_sample_settings())
    assert [row for row in list_effective_settings(load_settings()) if row.source != "default"] == []


def test_sample_names_every_setting_with_what_it_is_for() -> None:
    names = [row.name for row in list_effective_settings(Settings())]
    assert [name for name, *_ in iter_documented_settings()] == names
    assert [name for name, *_, description in iter_documented_settings() if not description] == []
    for name in names:
        assert re.search(rf"^#{name.rpartition('.')[2]} = ", render_sample_settings(), re.MULTILINE), name


def test_every_line_of_the_sample_can_be_switched_on(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    # The groups that its examples name are made by the installation.
    own = grp.getgrgid(os.getegid())
    monkeypatch.setattr(grp, "getgrnam", lambda name: own)
    config(re.sub(r"^#(\w+ = )", r"\1", render_sample_settings(), flags=re.MULTILINE))

    settings = load_settings()

    # An empty table has no line that a value could come from.
    rows = [row for row in list_effective_settings(settings) if row.value not in ({}, "{}")]
    assert {row.source.partition(":")[0] for row in rows} == {os.environ["ASSAYD_CONFIG"]}


def test_tables_that_are_given_by_name_are_described() -> None:
    assert "# Each is a table [repair.providers.NAME] with\n#   type: " in render_sample_settings()


def test_defaults_that_are_shown_are_the_defaults(config: Config) -> None:
    examples = {
        name for name, _, default, _ in iter_documented_settings() if default in {"unset", "by machine"}
    }
    shown = [line for line in render_sample_settings().splitlines() if not line.endswith("# an example")]
    config(re.sub(r"^#(\w+ = )", r"\1", "\n".join(shown), flags=re.MULTILINE))

    values = {row.name: row.value for row in list_effective_settings(load_settings())}

    expected = {row.name: row.value for row in list_effective_settings(Settings())}
    assert {name for name, value in values.items() if value != expected[name]} - examples == set()


def test_variables_are_those_that_are_read() -> None:
    assert {name: named for name, named, *_ in iter_documented_settings()}[
        "pool.enabled"
    ] == get_environment_variable_name("pool.enabled")
