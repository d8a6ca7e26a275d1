from __future__ import annotations

import pytest

from assayd.findings.python_failures import (
    ExceptionContext,
    NearestName,
    build_failure_finding,
    compute_edit_distance,
    find_nearest_name,
)
from assayd.guest_results import RaisedException


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [
        ("prats", "parts", 1),
        ("part", "parts", 1),
        ("partss", "parts", 1),
        ("pants", "parts", 1),
        ("Parts", "parts", 1),
        ("aprst", "parts", 2),
        ("a", "xyz", 3),
    ],
)
def test_steps_count_swapped_letters_as_one(one: str, other: str, steps: int) -> None:
    assert compute_edit_distance(one, other) == compute_edit_distance(other, one) == steps


@pytest.mark.parametrize(
    ("name", "circles", "fitting", "near"),
    [
        ("statr", [{"start"}, {"setattr"}], (), NearestName(name="start", certain=True)),
        ("chra", [{"char"}, {"chr"}], {"char"}, NearestName(name="char", certain=False)),
        ("worsd", [{"words", "word"}], (), NearestName(name="word", certain=False)),
        ("lne", [{"line", "lines"}, {"len"}], {"line"}, NearestName(name="line", certain=False)),
        ("lne", [{"total"}, {"len"}], {"len"}, NearestName(name="len", certain=True)),
        ("xy", [{"yx"}], (), NearestName(name="yx", certain=False)),
        ("wholly_other", [{"parts"}], (), None),
        ("a" * 50, [{"a" * 49}], (), None),
    ],
)
def test_the_nearest_name_is_found(
    name: str, circles: list[set[str]], fitting: set[str], near: NearestName | None
) -> None:
    assert find_nearest_name(name, circles, fitting) == near


def test_no_more_than_some_hundred_names_of_a_scope_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def count(one: str, other: str) -> int:
        compared.append(other)
        return 9

    monkeypatch.setattr("assayd.findings.python_failures.compute_edit_distance", count)
    assert find_nearest_name("words", [{f"x{n:04}" for n in range(5000)}]) is None
    assert len(compared) == 400


TEXT = "prices = [1]\nresult: int = sum(price)\n"


def explain(error_type: str, message: str, **around: object) -> tuple[str, str, str]:
    record = RaisedException(
        error_type=error_type, message=message, line=2, traceback="…", where="<module>", phase="call"
    )
    finding = build_failure_finding(record, ExceptionContext(text=TEXT, **around))  # type: ignore[arg-type]
    assert (finding.line, finding.snippet) == (2, "result: int = sum(price)")
    return finding.rule, finding.message, str(finding.suggestion)


@pytest.mark.parametrize(
    ("error_type", "message", "rule", "said", "remedy"),
    [
        (
            "NameError",
            "name 'price' is not defined",
            "name_undefined",
            "'price' is not",
            "Did you mean 'prices'",
        ),
        ("NameError", "name 'json' is not defined", "name_undefined", "'json' is not", "import json"),
        ("NameError", "name 'Any' is not defined", "name_undefined", "'Any'", "from typing import Any"),
        ("NameError", "name 'pd' is not defined", "name_undefined", "'pd'", "no pandas; use csv"),
        ("NameError", "name 'qqqq' is not defined", "name_undefined", "'qqqq'", "Define or import 'qqqq'"),
        (
            "NameError",
            "cannot access free variable 'n' where it is not associated with a value in enclosing scope",
            "name_unbound",
            "'n' of the enclosing function",
            "before calling the inner function",
        ),
        (
            "UnboundLocalError",
            "cannot access local variable 'n' where it is not associated with a value",
            "name_unbound",
            "The local variable 'n'",
            "on every code path",
        ),
        ("ModuleNotFoundError", "No module named 'yaml'", "module_missing", "no module 'yaml'", "Use json"),
        (
            "ModuleNotFoundError",
            "No module named 'jsonn'",
            "module_missing",
            "'jsonn'",
            "'json', if you meant that",
        ),
        (
            "ModuleNotFoundError",
            "No module named 'tkinter'",
            "module_missing",
            "'tkinter'",
            "an equivalent in the standard library",
        ),
        (
            "ModuleNotFoundError",
            "No module named 'os.pth'",
            "import_missing",
            "'os' has no module",
            "Look up",
        ),
        (
            "ModuleNotFoundError",
            "No module named 'json.x.y'; 'json.x' is not a package",
            "import_missing",
            "'json' has no module",
            "Look up",
        ),
        (
            "ImportError",
            "cannot import name 'loadz' from 'json' (/usr/lib/python3.11/json/__init__.py)",
            "import_missing",
            "has no 'loadz'",
            "spelling",
        ),
        (
            "ImportError",
            "cannot import name 'Mapping' from 'collections' (/usr/lib/python3.11/collections/__init__.py)",
            "import_missing",
            "has no 'Mapping'",
            "from collections.abc import Mapping",
        ),
    ],
)
def test_messages_of_the_interpreter_are_explained(
    error_type: str, message: str, rule: str, said: str, remedy: str
) -> None:
    found, words, suggestion = explain(error_type, message)
    assert found == f"sandbox.{rule}"
    assert said in words
    assert remedy in suggestion


@pytest.mark.parametrize(
    ("error_type", "message"),
    [
        ("NameError", "nobody knows"),
        ("NameError", ""),
        ("ImportError", "by hand"),
        ("ModuleNotFoundError", "No module named here"),
        ("ValueError", "name 'x' is not defined"),
        ("NameError", f"name '{'x' * 300}' is not defined"),
        ("UnboundLocalError", "name 'x' is not defined"),
    ],
)
def test_messages_that_are_not_the_interpreters_are_shown_as_they_are(error_type: str, message: str) -> None:
    rule, words, _ = explain(error_type, message)
    assert (rule, words) == ("sandbox.raised", f"{error_type}: {message}".removesuffix(": "))


def test_name_that_was_to_be_given_is_said_to_be_missing_among_the_inputs() -> None:
    _, words, _ = explain("NameError", "name 'price' is not defined", awaited=("price",))
    assert words == "'price' is declared as an input, but has no value."


def test_missing_module_is_held_against_what_was_required() -> None:
    message = "No module named 'numpy'"
    assert "listed in requires" in explain("ModuleNotFoundError", message, required=("numpy",))[1]
    assert "not listed in requires either" in explain("ModuleNotFoundError", message, required=("json",))[1]
    assert "requires" not in explain("ModuleNotFoundError", message)[1]


def test_distribution_that_is_called_otherwise_is_known_as_required() -> None:
    _, words, _ = explain("ModuleNotFoundError", "No module named 'yaml'", required=("PyYAML",))
    assert "listed in requires" in words


TWO = {"main.py": "import helper\nhelper.go()\n", "helper.py": "def go():\n    return 1 / 0\n"}


def raised(file: str | None, line: int) -> RaisedException:
    return RaisedException(
        error_type="ZeroDivisionError",
        message="division by zero",
        line=line,
        traceback="",
        where="go",
        phase="call",
        file=file,
    )


def test_exception_in_the_second_file_is_shown_there() -> None:
    around = ExceptionContext(text=TWO["main.py"], files=TWO)
    finding = build_failure_finding(raised("helper.py", 2), around)
    assert (finding.file, finding.line, finding.snippet) == ("helper.py", 2, "    return 1 / 0")


@pytest.mark.parametrize(
    ("around", "record"),
    [
        (ExceptionContext(text=TWO["main.py"], files=TWO), raised("harness.py", 1)),
        (ExceptionContext(text="x = 1\n"), raised("code.py", 9)),
    ],
)
def test_exception_of_the_harness_is_not_shown_as_the_submissions(
    around: ExceptionContext, record: RaisedException
) -> None:
    """Regression: its line was shown in the submitted text, with "Handle this case in the code"."""
    finding = build_failure_finding(record, around)
    assert (finding.file, finding.line, finding.snippet, finding.edit) == (None, None, None, None)
    assert finding.message == "The kind's own code failed: ZeroDivisionError: division by zero"
    assert "report this to the author of the kind" in (finding.suggestion or "")


def test_exception_of_the_last_line_is_the_submissions() -> None:
    finding = build_failure_finding(raised("code.py", 2), ExceptionContext(text="x = 1\n1 / 0"))
    assert (finding.line, finding.snippet) == (2, "1 / 0")
