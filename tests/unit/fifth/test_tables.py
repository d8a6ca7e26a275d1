"""Operators' additions to Fifth's tables: they work like the built-in ones, and their errors are reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from assayd.analysis.analyst import Analyst
from assayd.errors import ConfigError
from assayd.model.policy import ExecutionPolicy
from assayd.wiring.limits import AnalysisLimits
from assayd_fifth.analysis import analyze_program
from assayd_fifth.judging import build_first_prompt_guide
from assayd_fifth.language import add_language_folders, get_language
from assayd_fifth.validator import FifthPayload, validator

OWN = """
[[rule]]
id = "forbidden.bell"
detect = "words"
words = ["bell"]
type = "forbidden_pattern"
title = "The bell"
message = "'{word}' rings the bell."
suggestion = "Leave it out."
example = "bell"

[libraries]
shop = ["str"]

[words.shop]
"price" = "( item$ -- n )"
"bell" = "( -- )"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder for tables; they are reset afterwards."""
    yield tmp_path
    add_language_folders(())


def test_rule_and_library_of_an_operator_count_like_the_packages_own(folder: Path) -> None:
    (folder / "own.toml").write_text(OWN)
    add_language_folders([folder])

    found = analyze_program('require shop.fs\n: f ( -- n ) s" a" price ;\nbell', libraries=()).findings
    assert [(f.rule, f.line) for stage in found.values() for f in stage] == [("forbidden.bell", 3)]
    assert "str" in get_language().resolve_dependencies(["shop"])


def test_words_of_a_library_that_is_not_loaded_are_told_with_what_loads_it(folder: Path) -> None:
    (folder / "own.toml").write_text(OWN)
    add_language_folders([folder])

    [finding] = analyze_program(': f ( -- n ) s" a" price ;').findings["vocabulary"]
    assert finding.rule == "vocabulary.library_not_loaded"
    assert finding.suggestion == "Load it first: require lib/shop.fs"


def test_without_tables_the_same_words_are_unknown(folder: Path) -> None:
    assert "shop" not in get_language().words
    assert analyze_program("bell").findings["vocabulary"][0].rule == "vocabulary.unknown_word"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[effects]\n", "unknown section 'effects'"),
        ("[[rule", "own.toml"),
        ("[section]\nvocabulary = 'x'\n", "section 'vocabulary' of the guide already exists"),
        ("[section]\nbells = 1\n", "isn't a string"),
        (
            "[[profile]]\nmatch = ['own']\nrules = ['forbidden.gone']\n",
            "names the unknown rule 'forbidden.gone'",
        ),
        ("[[profile]]\nlens = ['x']\n", "a profile must have match"),
        ("[[task]]\nmatch = 'bell'\n", "match of a task must be a list of strings"),
        (OWN.replace("forbidden.bell", "bell"), "must begin with a stage"),
        (OWN.replace("forbidden.bell", "forbidden.include"), "already"),
        (OWN.replace('"words"', '"code"', 1), "detect must be words, flow or companion"),
        (OWN.replace("'{word}' rings", "{who} rings"), "message can contain only"),
        (OWN.replace("shop = ", "sql = "), "library 'sql' already exists"),
        (OWN.replace("words.shop", "words.str").replace("price", "STR+"), "'STR+' already exists in str"),
        (OWN.replace('title = "The bell"', ""), "needs 'title'"),
        (OWN.replace("suggestion", "sugestion"), "invalid rule or word"),
    ],
)
def test_table_that_cannot_be_used_is_refused_with_its_file(folder: Path, text: str, problem: str) -> None:
    (folder / "own.toml").write_text(text)

    with pytest.raises(ConfigError, match=r".*") as refused:
        add_language_folders([folder])
    assert problem in str(refused.value)
    assert str(folder) in str(refused.value)


def test_sections_profiles_and_tasks_of_an_operator_choose_what_is_told(folder: Path) -> None:
    (folder / "own.toml").write_text(
        "[section]\nbells = 'Ring no bell.'\n"
        "[[task]]\nmatch = ['bell']\nsections = ['bells']\n"
        "[[profile]]\nmatch = ['ourmodel']\nrules = ['forbidden.include']\nlens = ['Rings bells']\n"
    )
    add_language_folders([folder])
    told = build_first_prompt_guide("ourmodel-2", "bell tower", get_language())
    assert (told[0], told[-1]) == ("Guide, bells: Ring no bell.", "Known from similar models: Rings bells.")


def test_folder_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="not a folder"):
        add_language_folders([folder / "none"])


@pytest.mark.slow
async def test_analysis_workers_have_the_tables_too(folder: Path) -> None:
    (folder / "own.toml").write_text(OWN)
    payload, policy = FifthPayload(code="require shop.fs\nbell\n"), ExecutionPolicy(name="x")
    async with Analyst(AnalysisLimits(workers=1), tables={"fifth": [folder]}).running() as analyst:
        checked = await analyst.check(validator, payload, policy)
    found = [f.rule for stage in checked.stages for f in stage.findings]
    assert found == ["forbidden.bell"]
