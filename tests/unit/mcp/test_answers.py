import json

from assayd_mcp.answers import MAX_ANSWER_CHARS, build_attempt_answer, escape_and_truncate
from support.daemons.fake_service import GOLDEN


def golden(name: str) -> dict:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def test_answer_that_is_large_is_cut_to_fit_and_says_what_was_left_out() -> None:
    attempt = golden("failed_at_run")
    finding = {**attempt["report"]["findings"][0], "message": "m" * 9000, "snippet": "s" * 9000}
    attempt["report"]["findings"] = [finding] * 500
    attempt["report"]["retry_context"] = "r" * 32_000

    answer = build_attempt_answer(attempt)

    assert len(answer.model_dump_json()) <= MAX_ANSWER_CHARS
    assert (answer.findings_total, len(answer.findings) < 500) == (500, True)
    assert any("part=findings" in each for each in answer.more)


def test_small_answer_is_whole() -> None:
    answer = build_attempt_answer(golden("failed_at_run"))
    assert (answer.findings_total, len(answer.findings), len(answer.cases)) == (1, 1, 2)
    assert answer.cases[0].status == "failed"


def test_certain_edit_is_given_whole_or_not_at_all() -> None:
    attempt = golden("failed_at_run")
    hint = attempt["report"]["fix_hints"][0]
    edit = {"start_line": 1, "end_line": 1, "replacement": "import re\n"}
    attempt["report"]["fix_hints"] = [
        {**hint, "edit": edit},
        {**hint, "edit": {**edit, "replacement": "x" * 99_999}},
    ]

    assert [each.replacement for each in build_attempt_answer(attempt).edits] == ["import re\n"]


def test_text_that_hides_words_or_moves_a_terminal_is_shown_as_codes() -> None:
    assert escape_and_truncate("a\x1b[2Jb\U000e0041c", 100) == "a\\x1b[2Jb\\xe0041c"
    assert escape_and_truncate("abcdef", 2) == "ab… (4 more characters)"
