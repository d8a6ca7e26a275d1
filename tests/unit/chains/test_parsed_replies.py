import json
import time

import pytest

from assayd.errors import ProviderError
from assayd.kinds import registry
from assayd_chains.providers.reading import MAX_REASON_CHARS, MAX_REPLY_CHARS, parse_reply

OBJECT = json.dumps({"patched_code": "x = 1\n", "fix_reason": "It was 2."})


@pytest.mark.parametrize(
    "text",
    [
        OBJECT,
        f"\n{OBJECT}\n",
        f"```json\n{OBJECT}\n```",
        f"Here is the fix:\n\n```\n{OBJECT}\n```\nGood luck!",
        f"I looked at {{x}} first. {OBJECT} That is all.",
        f'{{"thought": "hm"}} {OBJECT}',
    ],
)
def test_patch_is_found_in_json_fence_or_prose(text) -> None:
    patch = parse_reply(text)
    assert (patch.code, patch.reason) == ("x = 1\n", "It was 2.")


def test_reason_may_be_missing() -> None:
    assert parse_reply('{"patched_code": "x"}').reason == ""


def test_reason_is_one_line_of_limited_length() -> None:
    reply = json.dumps({"patched_code": "x", "fix_reason": "a\n\x1b[31m" + "b" * 10_000})
    reason = parse_reply(reply).reason
    assert len(reason) == MAX_REASON_CHARS
    assert reason.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot help with that.",
        "x = 1",
        OBJECT[:-5],
        '{"patched_code": 3, "fix_reason": "no"}',
        '{"patched_code": "   ", "fix_reason": "empty"}',
        '{"patched_code": "\\ud800", "fix_reason": "no text"}',
        "{" * 100_000,
        "[" * 100_000,
        "x" * (MAX_REPLY_CHARS + 1),
    ],
)
def test_what_is_no_answer_is_refused_and_may_be_asked_again(text) -> None:
    with pytest.raises(ProviderError) as refused:
        parse_reply(text)
    assert (refused.value.code, refused.value.retryable) == ("provider.reply", True)


@pytest.mark.parametrize(
    "text", ["```a\n" * 30_000, "```a\n```\n" * 30_000, "```\n" * 100_001, "{" * 200_000]
)
def test_reading_takes_time_by_the_length_alone(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ProviderError):
        parse_reply(text)
    assert time.process_time() - began < 2


def test_second_fence_is_read_when_the_first_holds_something_else() -> None:
    assert parse_reply(f"```\nx = 1\n```\n```json  \n{OBJECT}\n```\t\n").code == "x = 1\n"


@pytest.mark.parametrize(
    ("answer", "code", "files", "steps"),
    [
        ({"code": "x = 1", "reason": "r"}, "x = 1", {}, ()),
        ({"files": {"a.py": "x"}, "reason": "r", "thoughts": "many"}, "", {"a.py": "x"}, ()),
        ({"steps": [{"name": "a"}], "fix_reason": "r"}, "", {}, ({"name": "a"},)),
    ],
)
def test_answer_is_code_files_or_steps(answer, code, files, steps) -> None:
    patch = parse_reply(json.dumps(answer))
    assert (patch.code, patch.files, patch.steps, patch.reason) == (code, files, steps, "r")


@pytest.mark.parametrize(
    "answer",
    [{"files": {"a": 1}}, {"files": ["a"]}, {"steps": ["a"]}, {"steps": {}}, {"files": {"a": "\ud800"}}, {}],
)
def test_answer_of_another_form_is_refused(answer) -> None:
    with pytest.raises(ProviderError, match="has no JSON object"):
        parse_reply(json.dumps(answer))


@pytest.mark.parametrize(
    "text",
    [
        '{"code": "x = 1\\n", "reason": "It was 2.",}',
        '```json\n{"code": "x = 1\\n", "reason": "It was 2."\n,\n}\n```',
    ],
)
def test_comma_before_the_closing_bracket_is_ignored(text) -> None:
    patch = parse_reply(text)
    assert (patch.code, patch.reason) == ("x = 1\n", "It was 2.")


def test_comma_and_bracket_inside_a_string_stay() -> None:
    assert parse_reply('{"code": "x = [1,]  # ,}\\"", "reason": "",}').code == 'x = [1,]  # ,}"'


@pytest.mark.parametrize("info", ["", "python", "bash"])
def test_one_fenced_block_without_json_is_the_code(info: str) -> None:
    assert parse_reply(f"Here it is:\n```{info}\nx = 1\n```\nDone.").code == "x = 1\n"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("def extract(path: str) -> dict:\n    return {}\n", "python"),
        ("import re\n\nresult: int = 1", "python"),
        ("SELECT 1;", "sql"),
        ("set -euo pipefail\nwc -l x", "bash"),
    ],
)
def test_whole_answer_that_is_a_program_is_the_code(text: str, language: str) -> None:
    assert parse_reply(text, language).code == text.rstrip() + "\n"


@pytest.mark.parametrize(
    "text", [": double ( n -- n ) 2 * ;", "\\ doubles\n: f 2 * ;", "require lib/core.fs"]
)
def test_program_of_a_language_that_a_kind_brings_is_the_code(text: str) -> None:
    kind = registry.find_validator("fifth")
    assert parse_reply(text, kind.language, kind.beginning).code == f"{text}\n"


@pytest.mark.parametrize(
    ("text", "language", "said"),
    [
        ("", "python", "is empty"),
        ("Sorry", "python", "has no JSON object"),
        ("I cannot help with that.", "sql", "has no JSON object"),
        ("def f(): pass", "module", "has no JSON object"),
        (": double ( n -- n ) 2 * ;", "fifth", "has no JSON object"),
        ("```\nx = 1\n```\nor\n```\nx = 2\n```", "python", "2 fenced blocks"),
        ('{"code": "x', "python", "Unterminated string"),
        ('```json\n{"code": x}\n```', "python", "Expecting value"),
    ],
)
def test_answer_that_is_ambiguous_is_refused_with_what_is_wrong(text: str, language: str, said: str) -> None:
    with pytest.raises(ProviderError, match=said):
        parse_reply(text, language)


def test_many_quotes_and_commas_are_read_in_time() -> None:
    began = time.process_time()
    for text in ('{"' + '\\"' * 300_000, '{"a",' + " " * 300_000 + "x", "{" + ", " * 300_000, '{"' * 300_000):
        with pytest.raises(ProviderError):
            parse_reply(text)
    assert time.process_time() - began < 4


@pytest.mark.parametrize(
    "text",
    ['{"question": "Which of\\nthe two?"}', 'I wonder.\n```json\n{"question": "Which of\\nthe two?"}\n```'],
)
def test_question_is_read_if_there_is_no_code(text: str) -> None:
    patch = parse_reply(text, "python")
    assert (patch.question, patch.code) == ("Which of the two?", "")


def test_code_counts_more_than_a_question() -> None:
    patch = parse_reply(f'{{"question": "Which?"}} {OBJECT}')
    assert (patch.question, patch.code) == ("", "x = 1\n")


@pytest.mark.parametrize("text", ['{"question": ""}', '{"question": 1}', '{"question": "\\ud800"}'])
def test_question_without_text_is_refused(text: str) -> None:
    with pytest.raises(ProviderError):
        parse_reply(text)
