from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.model.finding import Severity
from assayd.static.python.model_answer import extract_code

F = "```"

PLAIN = [
    "",
    "x = 1\n",
    "\n\nx = 1\n\n",
    "# comment\nx = 1",
    "    # an indented comment is fine\nx = 1\n",
    f'x = """\n{F}python\ny = 2\n{F}\n"""\n',
    f"def f():\n    '''\n    {F}\n    example\n    {F}\n    '''\n    return 1\n",
    f"# {F}python\nx = 1\n",
    f"def f(path):\n    '''\n    {F}json\n    {{}}\n    {F}\n    '''\n    return (1\n",
    "x = (1\n",
    f"{F}json\n{{}}\n{F}\n",
    f"{F}python x = 1{F}",
    "`x = 1`",
]

ANSWERS = [
    (f"{F}python\nx = 1\n{F}", "x = 1\n", False),
    (f"{F}\nx = 1\n{F}\n", "x = 1\n", False),
    (f"\n\n{F}python\nx = 1\n{F}\n\n", "x = 1\n", False),
    (f"{F}python\nx = 1", "x = 1\n", False),
    (f"{F}py\nx = 1\n{F}", "x = 1\n", False),
    (f"{F}Python\nx = 1\n{F}", "x = 1\n", False),
    (f'{F}python title="extractor.py"\nx = 1\n{F}', "x = 1\n", False),
    (f"{F}{{.python}}\nx = 1\n{F}", "x = 1\n", False),
    (f"{F} python\nx = 1\n{F}", "x = 1\n", False),
    ("~~~python\nx = 1\n~~~", "x = 1\n", False),
    (f"````python\nx = '''\n{F}\n'''\n````", f"x = '''\n{F}\n'''\n", False),
    (f"Here you are:\n\n{F}python\nx = 1\n{F}\nIt does so.", "x = 1\n", True),
    (f"Sure\n{F}python\nx = 1\n{F}", "x = 1\n", True),
    (f"1. Do\n\n   {F}python\n   x = 1\n   if x:\n       y = 2\n   {F}\n", "x = 1\nif x:\n    y = 2\n", True),
    (f"{F}python\nx = 1\n{F}\n{F}python\ny = 2\n{F}", "x = 1\n", True),
    (f"{F}bash\npip install x\n{F}\n{F}python\ny = 2\n{F}", "y = 2\n", True),
    (f"{F}\noutput\n{F}\n{F}python\ny = 2\n{F}", "y = 2\n", True),
    (f"x = 1\n{F}\n", "x = 1\n", False),
    (f"x = 1\n{F}\nThis does so.", "x = 1\n", True),
    (f"\r\n{F}python\r\nx = 1\r\ny = 2\r\n{F}\r\n", "x = 1\ny = 2\n", False),
    (
        f"{F}python\ndef f():\n    '''\n    {F}\n    example\n    {F}\n    '''\n    return 1\n{F}\nDone.",
        f"def f():\n    '''\n    {F}\n    example\n    {F}\n    '''\n    return 1\n",
        True,
    ),
    (f"````\n{F}python\nx = 1\n{F}\n````", "x = 1\n", False),
    (f"{F}python\nx = (1\n{F}\nSorry.", "x = (1\n", True),
]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_python_is_left_alone(text: str) -> None:
    assert extract_code(text).text == text
    assert extract_code(text).findings == ()


@pytest.mark.parametrize(("answer", "code", "said"), ANSWERS)
def test_the_code_is_taken_out_of_an_answer(answer: str, code: str, said: bool) -> None:
    cleaned = extract_code(answer)
    assert cleaned.text == code
    assert [f.rule for f in cleaned.findings] == (["answer.block_taken"] if said else [])
    assert all(f.severity is Severity.INFO for f in cleaned.findings)


def test_several_blocks_are_told_from_text_around_one() -> None:
    answer = f"{F}python\nx = 1\n{F}\n{F}python\ny = 2\n{F}\n{F}python\nz = 3\n{F}"
    assert "first of several" in extract_code(answer).findings[0].message
    assert "Text around" in extract_code(f"a\n{F}python\nx = 1\n{F}").findings[0].message


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("\ufeffx = 1\n", "x = 1\n"),
        ("\ufeff\ufeffx = 1\n", "x = 1\n"),
        ("x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n"),
        ("x = 1\ry = 2\r", "x = 1\ny = 2\n"),
    ],
)
def test_line_ends_and_byte_order_marks_are_made_plain(text: str, code: str) -> None:
    assert extract_code(text).text == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("    x = 1\n    y = 2\n", "x = 1\ny = 2\n"),
        ("  x = 1\ny = 2\n", "x = 1\ny = 2\n"),
        ("\n\tx = 1\n\ty = 2\n", "\nx = 1\ny = 2\n"),
        ("  # why\n  x = 1\n", "# why\nx = 1\n"),
    ],
)
def test_indentation_of_the_whole_text_is_removed_and_said(text: str, code: str) -> None:
    cleaned = extract_code(text)
    assert cleaned.text == code
    assert [f.rule for f in cleaned.findings] == ["answer.unindented"]


def test_a_text_over_the_cap_is_not_searched() -> None:
    answer = f"{F}python\n" + "x = 1\n" * 200_000 + F
    assert extract_code(answer).text == answer


def test_many_fences_are_read_in_little_time() -> None:
    answer = f"{F}python\nx = (\n{F}\n" * 20_000
    assert extract_code(answer).text == "x = (\n"


_PIECES = st.sampled_from(
    [
        f"{F}python",
        F,
        "````",
        "~~~",
        "x = 1",
        "  y = 2",
        "Here:",
        '"""',
        "'''",
        "(",
        "\r",
        "\ufeff",
        "# c",
        "",
    ]
)


@given(st.lists(_PIECES, max_size=8).map("\n".join) | st.text(alphabet="`x=\n '\"\r\t~\ufeff", max_size=30))
def test_cleaning_twice_is_cleaning_once(answer: str) -> None:
    once = extract_code(answer).text
    assert extract_code(once).text == once
