import re

from assayd_fifth.language import get_language
from assayd_fifth.validator import MAX_LISTS_CHARS, build_topics, list_words


def test_words_stand_behind_the_effect_that_they_share() -> None:
    told = "\n".join(list_words(get_language(), ("html",), ()))
    assert "( title$ -- ) html-begin html-head" in told
    assert "( text$ url$ -- ) a." in told
    assert "n>str" in told


def test_words_for_the_task_come_first_and_those_of_a_loaded_library_before_the_others() -> None:
    first = next(list_words(get_language(), ("math",), ("sql_queries",)))
    loaded = next(list_words(get_language(), ("template",), ()))
    assert first.startswith("Words of sql: ")
    assert loaded.startswith("Words of html: ")


def test_lists_stay_within_their_budget_and_count_what_they_leave_out() -> None:
    told = list(list_words(get_language(), tuple(get_language().words), ()))
    assert sum(map(len, told)) < MAX_LISTS_CHARS * 1.1
    assert any("more." in line for line in told)


def test_library_that_is_not_loaded_is_a_topic_and_a_loaded_one_is_none() -> None:
    by_word = {topic.words[0]: topic for topic in build_topics(get_language(), (), ())}
    assert any("Words of html: " in rule for rule in by_word["html"].rules)
    assert "html" not in {topic.words[0] for topic in build_topics(get_language(), ("html",), ())}


def test_guide_names_missing_words_that_are_missing_and_a_way_to_do_without_each_comparison() -> None:
    guide = get_language().guide["vocabulary"]
    known = {word for words in get_language().words.values() for word in words}
    found = re.search(r"lacks (.*) and (\S+); for (\S+) write `> not`, for (\S+) write `< not`", guide)
    assert found is not None
    missing = [*found[1].split(", "), *found.groups()[1:]]
    assert known.isdisjoint(missing)
    assert {">", "<", "not"} <= known
