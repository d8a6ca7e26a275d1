"""`python`: a text in a namespace, and the values that it leaves."""

from __future__ import annotations

from support.guest_runner import GuestRunner, Seen


def run(runner: GuestRunner, source: str, *results: str, **namespace: object) -> Seen:
    """Run a text."""
    text = {"source": source, "filename": "node.py", "builtins": "full"}
    return runner.run("python", {**text, "namespace": namespace, "results": list(results)})


def test_named_values_come_back_each_with_type_and_notes(begun: GuestRunner) -> None:
    record = run(begun, "total = price * 2\nodd = {1}", "total", "odd", price=2.5).record

    assert record["status"] == "returned"
    assert record["values"] == {
        "total": {"value": 5.0, "value_type": "float", "notes": []},
        "odd": {
            "value": [1],
            "value_type": "set",
            "notes": [{"path": "$", "problem": "a set, shown as an array"}],
        },
    }
    assert record["missing"] == []


def test_names_that_were_not_bound_are_missing(begun: GuestRunner) -> None:
    record = run(begun, "a = 1", "a", "b", "c").record

    assert (list(record["values"]), record["missing"]) == (["a"], ["b", "c"])  # type: ignore[call-overload]


def test_text_runs_as_the_main_program(begun: GuestRunner) -> None:
    record = run(begun, "if __name__ == '__main__':\n    result = 1", "result").record

    assert record["missing"] == []


def test_exception_shows_its_line_and_ends_with_exit_code_one(begun: GuestRunner) -> None:
    seen = run(begun, "a = 1\nmissing_name", "a")

    assert (seen.record["error_type"], seen.record["line"], seen.record["phase"]) == ("NameError", 2, "call")
    assert (seen.record["where"], seen.end["wait_status"]) == ("<module>", 256)


def test_text_that_does_not_compile(begun: GuestRunner) -> None:
    assert run(begun, "a = ").record["status"] == "not_compiled"


def test_namespace_cannot_replace_the_guarded_builtins(begun: GuestRunner) -> None:
    seen = run(begun, "import socket", __builtins__={})

    assert seen.refusals == [("import", "socket", 1)]
