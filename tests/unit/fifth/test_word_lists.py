from assayd_fifth.language import language
from assayd_fifth.word_lists import CHARS, told_words


def test_words_stand_behind_the_effect_that_they_share() -> None:
    told = "\n".join(told_words(language(), (), ()))
    assert "( title$ -- ) html-begin html-head" in told
    assert "( text$ url$ -- ) a." in told
    assert "n>str" in told


def test_words_for_the_task_come_first_and_those_of_a_loaded_library_before_the_others() -> None:
    first = next(told_words(language(), ("math",), ("sql_queries",)))
    loaded = next(told_words(language(), ("template",), ()))
    assert first.startswith("Words of sql: ")
    assert loaded.startswith("Words of html: ")


def test_lists_stay_within_their_budget_and_count_what_they_leave_out() -> None:
    told = list(told_words(language(), tuple(language().words), ()))
    assert sum(map(len, told)) < CHARS * 1.1
    assert any("more." in line for line in told)
