"""The rules are data: a rule of an existing sort, a word or a library needs no code."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

import pytest

from assayd_fifth.analysis import analyze_program
from assayd_fifth.language import Language, get_language, read_language
from assayd_fifth.rules import STAGE_NAMES

FOLDER = resources.files("assayd_fifth") / "data"


def read() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    about, vocabulary, rules = (
        tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
        for name in ("language", "vocabulary", "rules")
    )
    return about, vocabulary, rules


def rules_of(code: str, about: Language, *libraries: str) -> list[str]:
    found = analyze_program(code, about=about, libraries=libraries).findings
    return [finding.rule for stage in STAGE_NAMES for finding in found.get(stage, ())]


def rule(**fields: object) -> dict[str, object]:
    plain = {
        "type": "house_rule",
        "title": "T",
        "message": "No {word}.",
        "suggestion": "None.",
        "example": "x",
    }
    return plain | fields


def test_rule_of_an_existing_sort_is_a_change_of_data() -> None:
    about, vocabulary, rules = read()
    rules["rule"] += [
        rule(id="forbidden.pick", detect="words", words=["pick"], replace="over"),
        rule(
            id="forbidden.print_data", detect="flow", sources=["getenv"], sinks=["type"], message="{source}"
        ),
        rule(id="required.close", detect="companion", words=["open-file"], needs=["close-file"]),
    ]
    house = read_language(about, vocabulary, rules)
    code = ': f ( n -- ) 0 pick s" HOME" getenv type s" x" r/o open-file 2drop 2drop ;'

    found = rules_of(code, house)

    assert found == ["forbidden.pick", "forbidden.print_data", "required.close"]
    assert rules_of(code, get_language()) == []


def test_word_and_library_are_a_change_of_data() -> None:
    about, vocabulary, rules = read()
    vocabulary["words"]["chart"] = {"bar-chart": "( values n -- )"}
    about["libraries"]["chart"] = ["html"]
    house = read_language(about, vocabulary, rules)

    assert rules_of("require chart.fs\n: f ( a n -- ) bar-chart <p> </p> ;", house) == []
    assert rules_of(": f ( a n -- ) bar-chart ;", house) == ["vocabulary.library_not_loaded"]
    assert rules_of("require chart.fs\n: f ( n -- ) nl bar-chart ;", house) == ["structure.stack_underflow"]


def test_every_rule_is_told_apart_and_shows_a_bad_line() -> None:
    listed = get_language().rules.to_api_rules()
    assert len({entry.id for entry in listed}) == len(listed)
    for entry in get_language().rules.by_id.values():
        assert entry.stage in STAGE_NAMES
        assert entry.example
        assert entry.section or not entry.emphasis


@pytest.mark.parametrize("group", ["profile", "task"])
def test_rules_that_profiles_and_tasks_name_exist(group: str) -> None:
    _, _, rules = read()
    named = {name for entry in rules[group] for name in entry["rules"]}
    assert named <= set(get_language().rules.by_id)


def test_lists_name_only_words_that_exist() -> None:
    about, vocabulary, _ = read()
    words = {word.lower() for entries in vocabulary["words"].values() for word in entries} | set(
        about["effects"]
    )
    lists = [about["words"][name] for name in about["words"]]
    lists += [
        words
        for buffer in about["buffers"].values()
        for words in buffer.values()
        if words != buffer["called"]
    ]
    lists += [about["takes"][name] for name in about["takes"]]
    lists += list(about["roles"].values())

    assert {word for each in lists for word in each} - words == set()
    assert not words & set(about["gforth"]["words"].split())
    assert not words & (set(about["imagined"]["words"]) | set(about["hints"]))


def test_vocabulary_is_whole() -> None:
    words = get_language().words
    assert len({name for entries in words.values() for name in entries} - {'c"'}) == 481
    assert words["engine"]["rot"].moves == (1, 2, 0)
    assert words["html"]["text"].takes == 2
    assert words["ui"]["stat-card-n"].takes == 3
    assert get_language().resolve_dependencies(["ui"]) == ["str", "html", "template", "ui"]
