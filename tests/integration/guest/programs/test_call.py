"""`call`: what a text and its function return, whatever they do."""

from __future__ import annotations

import os
import signal

import pytest

from support.guests.guest_runner import GuestRunner, Seen


def test_value_comes_back_with_its_type_and_time(begun: GuestRunner) -> None:
    record = begun.call("def extract(a, b): return (a, b)", 1, "x").record

    assert record["value"] == [1, "x"]
    assert record["value_type"] == "tuple"
    assert record["notes"] == [{"path": "$", "problem": "a tuple, shown as an array"}]
    assert 0 < float(str(record["duration_s"])) < 1


def test_keyword_arguments_are_passed(begun: GuestRunner) -> None:
    arguments = {"source": "def f(*, x): return x", "filename": "g.py", "builtins": "safe"}

    assert begun.run("call", {**arguments, "function": "f", "args": [], "kwargs": {"x": 3}}).value == 3


def test_exception_shows_the_submitted_lines_only(begun: GuestRunner) -> None:
    seen = begun.call("""\
        import json
        def parse(text):
            return json.loads(text)

        def extract():
            return parse("{")
    """)

    record = seen.record
    assert (record["status"], record["error_type"], record["phase"]) == ("raised", "JSONDecodeError", "call")
    assert (record["line"], record["where"]) == (3, "parse")
    assert record["traceback"] == (
        "Traceback (most recent call last):\n"
        '  File "given.py", line 6, in extract\n'
        '    return parse("{")\n'
        '  File "given.py", line 3, in parse\n'
        "    return json.loads(text)\n"
        "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    )
    assert seen.end["wait_status"] == 1 << 8


def test_exception_while_the_module_runs_is_of_phase_import(begun: GuestRunner) -> None:
    record = begun.call("x = 1\ny = x / 0").record

    assert (record["phase"], record["error_type"], record["line"]) == ("import", "ZeroDivisionError", 2)
    assert record["where"] == "<module>"


@pytest.mark.parametrize(
    ("statement", "error_type"),
    [
        ("raise SystemExit(0)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise MemoryError", "MemoryError"),
        ("extract()", "RecursionError"),
        ("raise BaseException('x')", "BaseException"),
    ],
)
def test_any_exception_is_raised_and_not_an_exit(begun: GuestRunner, statement: str, error_type: str) -> None:
    seen = begun.call(f"def extract():\n    {statement}")

    assert (seen.record["status"], seen.record["error_type"]) == ("raised", error_type)
    assert (seen.record["line"], seen.end["wait_status"]) == (2, 1 << 8)


def test_deep_recursion_gives_a_short_traceback(begun: GuestRunner) -> None:
    record = begun.call("def extract(n=0): return extract(n + 1)").record

    assert "frames omitted" in str(record["traceback"])
    assert len(str(record["traceback"]).splitlines()) == 43


def test_exception_with_a_message_that_raises_is_shown_without_it(begun: GuestRunner) -> None:
    record = begun.call("""
        class Evil(Exception):
            def __str__(self):
                raise SystemExit("gone")
            __repr__ = __str__

        def extract(): raise Evil
    """).record

    assert (record["error_type"], record["message"]) == ("Evil", "<message not available: SystemExit>")


def test_very_long_message_with_surrogates_is_cut_and_plain(begun: GuestRunner) -> None:
    message = str(begun.call("def extract(): raise ValueError('\\ud800' + 'x' * 10**6)").record["message"])

    assert message.startswith("\\ud800xxx")
    assert len(message) == 4096 + 5


@pytest.mark.parametrize(
    ("source", "error_type", "line"),
    [
        ("def extract(:", "SyntaxError", 1),
        ("x = 1\n  y = 2", "IndentationError", 2),
        ("return 1", "SyntaxError", 1),
        ("x = '\0'", "ValueError", None),
        ("(" * 100_000, "MemoryError", None),
    ],
)
def test_text_that_does_not_compile(
    begun: GuestRunner, source: str, error_type: str, line: int | None
) -> None:
    seen = begun.call(source)

    assert seen.record["status"] == "not_compiled"
    assert (seen.record["error_type"] in {error_type, "SyntaxError"}, seen.end["wait_status"]) == (True, 256)
    assert line is None or seen.record["line"] == line


@pytest.mark.parametrize("source", ["", "extract = 1", "class Other:\n    def extract(self): pass"])
def test_module_without_the_function(begun: GuestRunner, source: str) -> None:
    assert begun.call(source).record == {"status": "no_function"}


def test_async_function_gives_a_coroutine_which_is_noted(begun: GuestRunner) -> None:
    record = begun.call("async def extract(): return 1").record

    assert (record["value"], record["value_type"]) == ("<coroutine>", "coroutine")
    assert record["notes"] == [{"path": "$", "problem": "coroutine is not a JSON value"}]


def test_text_is_not_the_main_program(begun: GuestRunner) -> None:
    assert begun.call("def extract(): return __name__").value == "submission"


@pytest.mark.parametrize(
    "name", ["open", "exec", "eval", "compile", "input", "breakpoint", "help", "exit", "quit"]
)
def test_safe_builtins_lack_what_reaches_out(begun: GuestRunner, name: str) -> None:
    record = begun.call(f"def extract(): return {name}", builtins="safe").record

    assert (record["error_type"], record["message"]) == ("NameError", f"name '{name}' is not defined")


def test_safe_builtins_are_enough_for_ordinary_code(begun: GuestRunner) -> None:
    seen = begun.call(
        """
        import functools

        class Base:
            @property
            def size(self): return 2

        class Item(Base):
            def __init__(self, n): self.n = super().size + n

        def extract():
            total = sum(map(abs, filter(None, [-1, 0, round(2.6)])))
            letters = [chr(ord(c) + 1) for c in reversed(sorted("ab"))]
            try:
                next(iter(()))
            except StopIteration as stop:
                kind = type(stop).__name__
            print(repr(letters), isinstance(total, int), getattr(Item(1), "n"), hash(1), id(1) > 0)
            return {"total": total, "letters": letters, "kind": kind, "n": Item(1).n,
                    "product": functools.reduce(lambda a, b: a * b, range(1, 5)), "f": f"{3.14159:.2f}"}
        """,
        builtins="safe",
    )

    assert seen.value == {
        "total": 4, "letters": ["c", "b"], "kind": "StopIteration", "n": 3, "product": 24, "f": "3.14"
    }  # fmt: skip


def test_result_survives_what_the_guest_did_to_the_interpreter(observing: GuestRunner) -> None:
    seen = observing.call("""
        import builtins, json, os, sys
        def extract():
            print("said", end="")
            for name in ("len", "isinstance", "issubclass", "str", "dict", "list", "getattr", "print"):
                setattr(builtins, name, None)
            json.dumps = json.loads = os.write = os._exit = sys.stdout = sys.stderr = None
            sys.setrecursionlimit(30)
            return {"a": [1, 2]}
    """)

    assert seen.value == {"a": [1, 2]}
    assert seen.output("stdout") == b"said"


def test_output_of_a_replaced_stream_is_flushed_or_ignored(observing: GuestRunner) -> None:
    seen = observing.call("""
        import sys
        class Evil:
            def flush(self): raise SystemExit
        def extract():
            sys.stdout.write("said")
            sys.stderr = Evil()
            return 1
    """)

    assert (seen.value, seen.output("stdout")) == (1, b"said")


def test_arguments_of_another_shape_break_the_child_visibly(begun: GuestRunner) -> None:
    seen = begun.run("call", {"source": 1})

    assert seen.end["wait_status"] == 70 << 8
    assert b"TypeError: argument source is not a str" in seen.output("stderr")


AGAIN = {"filename": "g.py", "builtins": "safe", "function": "extract", "args": ["a"], "kwargs": {}}


def again(begun: GuestRunner, source: str, *calls: str) -> Seen:
    arguments = {**AGAIN, "source": source, "again": [[call] for call in calls]}
    return begun.run("call", arguments)


def test_further_calls_come_beside_the_judged_one_and_what_they_print_is_dropped(begun: GuestRunner) -> None:
    seen = again(begun, "def extract(x):\n    print(x)\n    return {x: 1 / len(x)}\n", "b", "", "cd")

    assert seen.record["value"] == {"a": 1.0}
    assert seen.record["again"] == [{"b": 1.0}, None, {"cd": 0.5}]
    assert seen.output("stdout") == b"a\n"
    assert seen.end["wait_status"] == 0


def test_further_calls_are_of_a_module_that_runs_anew(begun: GuestRunner) -> None:
    source = "seen = []\ndef extract(x):\n    seen.append(x)\n    return {'seen': list(seen)}\n"

    assert again(begun, source, "a", "a").record["again"] == [{"seen": ["a"]}, {"seen": ["a", "a"]}]


def test_slow_code_and_large_results_are_not_tried_again(begun: GuestRunner) -> None:
    slow = "def extract(x):\n    sum(range(10**7))\n    return {}\n"
    large = "def extract(x): return {'x': 'y' * 10_000}\n"

    assert again(begun, slow, "b").record["again"] == again(begun, large, "b").record["again"] == []


def test_a_further_call_that_hangs_ends_the_process_after_it_told_of_the_check(begun: GuestRunner) -> None:
    seen = again(begun, "def extract(x):\n    while x != 'a': pass\n    return {}\n", "b")

    assert [event[0] for event in seen.events] == ["check"]
    assert os.WTERMSIG(int(str(seen.end["wait_status"]))) == signal.SIGALRM
    assert seen.records == []


def test_each_call_has_a_result_and_an_exception_ends_only_its_own(begun: GuestRunner) -> None:
    arguments = {
        "source": "def f(x):\n    if x == '':\n        raise SystemExit(3)\n    return {'n': 6 // int(x)}",
        "filename": "g.py",
        "builtins": "safe",
        "function": "f",
        "args": [],
        "kwargs": {},
        "each": [["2"], ["0"], [""], ["3"]],
    }

    seen = begun.run("call", arguments)

    assert seen.record["status"] == "returned"
    assert seen.record["each"] == [
        {"value": {"n": 3}, "value_type": "dict"},
        {"error_type": "ZeroDivisionError", "line": 4, "message": "integer division or modulo by zero"},
        {"error_type": "SystemExit", "line": 3, "message": "3"},
        {"value": {"n": 2}, "value_type": "dict"},
    ]
    assert seen.end["wait_status"] == 0
