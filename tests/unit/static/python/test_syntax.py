from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.model.finding import Severity
from assayd.static.python import syntax
from assayd.static.python.safe_fixes import MAX_TRIED_CHARS
from assayd.static.python.source import RULES, parse_source
from support.slowness import SLOWER_BY


@pytest.mark.parametrize(
    ("text", "suggestion", "line"),
    [
        ("dfe f(x):\n    return x\n", "Did you mean 'def'?", "def f(x):"),
        ("def f(x):\n    retrun x\n", "Did you mean 'return'?", "    return x"),
        ("fro x in [1]:\n    print(x)\n", "Did you mean 'for'?", "for x in [1]:"),
        ("improt re\n", "Did you mean 'import'?", "import re"),
        ("x = [n for n ni [1]]\n", "Did you mean 'in'?", "x = [n for n in [1]]"),
    ],
)
def test_one_change_that_makes_it_python_is_an_edit(text: str, suggestion: str, line: str) -> None:
    [finding] = parse_source(text).findings
    assert finding.suggestion == suggestion
    assert finding.edit is not None
    assert finding.edit.replacement == line


def test_indented_line_with_a_word_near_a_keyword_is_only_aligned() -> None:
    [finding] = parse_source("import os\n  row = os.getcwd()\n").findings
    assert finding.rule == "syntax.indentation"
    assert finding.suggestion == "Align line 2 with its block: it is indented too deeply."
    assert finding.message == "Syntax error: unexpected indent"


def test_misspelled_keyword_is_named_if_the_next_error_is_on_a_later_line() -> None:
    [finding] = parse_source("fro x in [1]:\n    retrun x\n").findings
    assert (finding.suggestion, finding.edit) == ("Did you mean 'for'?", None)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("fro x in [1]:\n    print(x)\n", "'fro' is not a keyword"),
        ("x = [1 2]\n", "a comma is missing"),
        ("x = f(a  b)\n", "a comma or an operator is missing"),
        ("from dataclasses import asdict dataclass\n", "a comma is missing"),
        ("x y z\n", "invalid syntax"),
    ],
)
def test_message_names_the_cause_that_the_compiler_does_not_know(text: str, cause: str) -> None:
    [finding] = parse_source(text).findings
    assert finding.message == f"Syntax error: {cause}"


def test_what_is_missing_between_two_blanks_is_left_to_the_author() -> None:
    [finding] = parse_source("def f(a, b): pass\nx = f(a  b)\n").findings
    assert "comma" in (finding.suggestion or "")
    assert finding.edit is None


@pytest.mark.parametrize("text", ["x = = 1\n", "x y z\n", "x = ?\n", "if x = 1 then\n"])
def test_nothing_certain_is_said_of_other_lines(text: str) -> None:
    [finding] = parse_source(text).findings
    assert finding.edit is None


# text, rule, line, a part of the suggestion
BROKEN = [
    ('x = "abc', "unterminated_string", 1, "closing quote of the string on line 1"),
    ("x = 'abc\ny = 1", "unterminated_string", 1, "closing quote"),
    ('def f():\n    """doc\n    return 1\n', "unterminated_string", 2, "three quotes"),
    ("x = '''a", "unterminated_string", 1, "three quotes"),
    ("x = (1, 2\ny = 1\n", "unclosed_bracket", 1, "Close the '('"),
    ("x = {'a': [1, 2}\n", "mismatched_bracket", 1, "Close '['"),
    ("x = 1)\n", "mismatched_bracket", 1, "Remove the ')'"),
    ("def f(x)\n    return x\n", "missing_colon", 1, "colon at the end of line 1"),
    ("class A\n    x = 1\n", "missing_colon", 1, "colon"),
    ("if x\n    pass\n", "missing_colon", 1, "colon"),
    ("for x in y\n    pass\n", "missing_colon", 1, "colon"),
    ("while x\n    pass\n", "missing_colon", 1, "colon"),
    ("try\n    pass\nexcept E: pass", "missing_colon", 1, "colon"),
    ("  x = 1\n", "indentation", 1, "Align line"),
    ("x = 1\n    y = 2\n", "indentation", 2, "Align line"),
    ("def f():\nreturn 1\n", "indentation", 2, "body of the function definition on line 1"),
    ("if x:\ny = 1\n", "indentation", 2, "'if' statement on line 1"),
    ("def f():\n        x = 1\n    y = 2\n", "indentation", 3, "Align line 3"),
    ("if 1:\n\tx = 1\n        y = 2\n", "tabs", 3, "spaces only"),
    ('print "x"\n', "print_statement", 1, "print("),
    ("exec 'x'\n", "print_statement", 1, "exec("),
    ("x = [1 2]\n", "missing_comma", 1, "comma"),
    ("f(a b)\n", "missing_comma", 1, "comma"),
    ("if x = 1: pass\n", "assignment", 1, "=="),
    ("1 = x\n", "assignment", 1, "=="),
    ("f() = 1\n", "assignment", 1, "=="),
    ("del f()\n", "assignment", 1, "="),
    ('f"{a b}"\n', "f_string", 1, "compute the value first"),
    ('f"{}"\n', "f_string", 1, "{{"),
    ("x = “abc”\n", "invalid_character", 1, "ASCII"),
    ("x =\u00a01\n", "invalid_character", 1, "ordinary space"),
    ("x = 1 – 2\n", "invalid_character", 1, "ASCII"),
    ('x = "C:\\Users"\n', "unicode_escape", 1, 'r"'),
    ("x = 0777\n", "number", 1, "number"),
    ("1st = 2\n", "number", 1, "digit"),
    (f"x = {'9' * 5000}\n", "number", 1, "number"),
    ("return 1\n", "outside_function", 1, "into a function"),
    ("yield 1\n", "outside_function", 1, "into a function"),
    ("await x\n", "outside_function", 1, "into a function"),
    ("def f():\n    await x\n", "outside_function", 1, "async def f"),
    ("def f():\n    open(x) as y\n        return y\n", "invalid", 2, ""),
    ("break\n", "outside_loop", 1, "loop"),
    ("continue\n", "outside_loop", 1, "loop"),
    ("def f(a, a): pass\n", "arguments", 1, "arguments"),
    ("def f(a=1, b): pass\n", "arguments", 1, "defaults"),
    ("f(a=1, 2)\n", "arguments", 1, "plain ones first"),
    ("f(a=1, a=2)\n", "arguments", 1, "each once"),
    ("x = 1 \\ 2\n", "continuation", 1, "backslash"),
    ("try:\n    pass\nx = 1\n", "missing_block", 3, "except"),
    ("try:\n    pass\nexcept A, B:\n    pass\n", "except_types", 3, "(A, B)"),
    ("x = 1\nfrom __future__ import annotations\n", "future", 2, "first"),
    ("def f():\n    x = 1\n    global x\n", "scope", 3, "global"),
    ("def f():\n    nonlocal x\n", "scope", 2, "nonlocal"),
    ("```python\nx = 1\n```\n", "markdown_fence", 1, "fences"),
    ("x = 1\n```\n", "markdown_fence", 2, "fences"),
    ("Here is the code:\n", "invalid", 1, "line 1"),
    ("(" * 10_000, "too_deep", 1, "Flatten"),
    ("x = " + "-" * 100_000 + "1\n", "too_deep", None, "Flatten"),
    ("x = a" + ".b" * 100_000 + "\n", "too_deep", None, "Flatten"),
    ("x = " + "not " * 20_000 + "1\n", "too_deep", None, "Flatten"),
    ("".join(" " * n + "if 1:\n" for n in range(101)) + " " * 101 + "pass\n", "too_deep", 101, "Flatten"),
]


@pytest.mark.parametrize(("text", "rule", "line", "suggestion"), BROKEN)
def test_broken_text_gives_one_finding_that_helps(
    text: str, rule: str, line: int | None, suggestion: str
) -> None:
    source = parse_source(text)
    assert source.tree is None
    [finding] = source.findings
    assert (finding.rule, finding.line, finding.severity) == (f"syntax.{rule}", line, Severity.ERROR)
    assert suggestion in (finding.suggestion or "")
    assert finding.line is None or finding.snippet is not None


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("def f(x)\n    return x\n", "def f(x):"),
        ("if x  # why: so\n    pass\n", "if x:  # why: so"),
        ('if x == "#"\n    pass\n', 'if x == "#":'),
        ('print "a", 1  # b\n', 'print("a", 1)  # b'),
        ('raise ValueError, "has no name"\n', 'raise ValueError("has no name")'),
        ("    print x\n".strip() + "\n", "print(x)"),
        ("x = “a”\n", 'x = "a"'),
        ("x =\u00a01\n", "x = 1"),
        ("try: pass\nexcept A, B: pass\n", "except (A, B): pass"),
    ],
)
def test_an_edit_is_given_where_it_is_certain(text: str, fixed: str) -> None:
    [finding] = parse_source(text).findings
    edit = finding.edit
    assert edit is not None
    assert edit.replacement == fixed
    lines = text.split("\n")
    lines[edit.start_line - 1 : edit.end_line] = [edit.replacement]
    assert parse_source("\n".join(lines)).tree is not None


@pytest.mark.parametrize(
    "text",
    ["def f(x)\n    return (x\n", 'print "a"\nif x\n', "x = “a\n", "if x\n    y = [\n", "def f(x\n"],
)
def test_no_edit_is_given_when_the_text_would_still_be_broken(text: str) -> None:
    [finding] = parse_source(text).findings
    assert finding.edit is None


def test_a_warning_of_the_compiler_is_a_warning() -> None:
    source = parse_source("import re\nx = re.compile('\\d')\ny = x is 1\n")
    assert source.tree is not None
    assert [(f.rule, f.line, f.severity) for f in source.findings] == [
        ("syntax.invalid_escape", 2, Severity.WARNING),
        ("syntax.suspicious", 3, Severity.WARNING),
    ]


def test_columns_count_characters() -> None:
    [finding] = parse_source("é = 'äöü'; x = )\n").findings
    assert finding.column == 16


@pytest.mark.slow
@given(st.text(alphabet="xf12 ()[]{}:=.,'\"\\#\n\t\r\x0c`é“λ@!-*", max_size=40) | st.text(max_size=40))
def test_every_text_gives_a_tree_or_a_declared_finding(text: str) -> None:
    source = parse_source(text)
    assert (source.tree is None) == any(f.is_error for f in source.findings)
    assert {f.rule for f in source.findings} <= {rule.id for rule in RULES}


def test_escapes_that_are_not_valid_are_one_finding_with_their_lines() -> None:
    source = parse_source('a = "\\d"\nb = 1\nc = "\\w"\nd = "\\d \\s"\n')
    [finding] = source.findings
    assert (finding.rule, finding.line) == ("syntax.invalid_escape", 1)
    assert finding.message.endswith("; also in lines 1, 3, 4")


def test_single_escape_that_is_not_valid_names_no_other_line() -> None:
    [finding] = parse_source('a = "\\d"\n').findings
    assert "lines" not in finding.message


@pytest.mark.parametrize(
    "line", [f"raise a, b{' ' * 40_000}c,", f"raise a, b{' ' * 40_000}", f"{'a' * 20_000}' b 'c"]
)
def test_long_line_is_explained_in_little_time(line: str) -> None:
    began = time.process_time()
    parse_source(f"{line}\n")
    assert time.process_time() - began < 0.5 * SLOWER_BY


def test_raise_of_python_2_is_corrected_with_spaces_at_the_end() -> None:
    [finding] = parse_source('raise ValueError, "no name"  \n').findings
    assert finding.edit is not None
    assert finding.edit.replacement == 'raise ValueError("no name")'


@pytest.mark.parametrize(("copies", "most"), [(1, 1), (3, 3), (0.5, 0)])
def test_spelling_compiles_a_bounded_number_of_candidates(
    copies: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def note(text: str, *_: object) -> None:
        tried.append(text)

    monkeypatch.setattr(syntax, "parse_or_none", note)
    monkeypatch.setattr(syntax, "fails_after_line", note)
    line = "fro fo in iff whille x y z\n"
    text = f"#{'-' * (int(MAX_TRIED_CHARS / copies) - len(line) - 2)}\n{line}"
    syntax.explain_misspelling(SyntaxError("invalid syntax", ("a.py", 2, 1, line)), text)

    assert len(tried) == most


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake",
    ["if x > 3\n    y = 1\n", "x = int(y\n", "x = int(y))\n", "x = g(a b)\n", "def f():\n async with x: 1\n"],
)
@pytest.mark.parametrize("lines", [5_000, 30_000])
def test_long_source_is_explained_in_little_time(mistake: str, lines: int) -> None:
    text = "x = [1, 2, 3]\ny = x[0] + 1\n" * lines + mistake
    with pytest.raises(SyntaxError) as caught:
        compile(text, "a.py", "exec")
    began = time.process_time()
    syntax.explain_syntax_error(caught.value, text)

    assert time.process_time() - began < 3.0 * SLOWER_BY


@pytest.mark.slow
def test_same_mistake_in_many_lines_of_a_long_source_is_explained_in_little_time() -> None:
    text = "x = [1, 2, 3]\ny = x[0] + 1\n" * 20_000 + 'print "x"\n' * 50
    began = time.process_time()
    [finding] = parse_source(text).findings

    assert time.process_time() - began < 5 * SLOWER_BY
    assert (finding.rule, finding.edit) == ("syntax.print_statement", None)
