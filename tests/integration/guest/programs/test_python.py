"""`python`: a text in a namespace, and the values that it binds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.guests.guest_runner import GuestRunner, Seen

TEE = """
import sys
class Tee:
    def __init__(self): self.file = open('a', 'w')
    def write(self, text): self.file.write(text); sys.__stdout__.write(text)
"""
BUSY_THREAD = """
import threading, time
def spin():
    while True: pass
threading.Thread(target=spin, daemon=True).start()
"""


def run(runner: GuestRunner, source: str, *results: str, **namespace: object) -> Seen:
    """Run a text."""
    text = {"source": source, "filename": "node.py", "builtins": "full"}
    return runner.run("python", {**text, "namespace": namespace, "results": list(results)})


def test_named_values_come_back_each_with_type_and_notes(begun: GuestRunner) -> None:
    record = run(begun, "total = price * 2\nodd = {1}", "total", "odd", price=2.5).record

    assert record["status"] == "returned"
    assert record["values"] == {
        "total": {"value": 5.0, "value_type": "float", "notes": [], "complete": True},
        "odd": {
            "value": [1],
            "value_type": "set",
            "notes": [{"path": "$", "problem": "a set, shown as an array"}],
            "complete": True,
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


def test_tagged_values_come_in_and_go_out_as_what_they_are(begun: GuestRunner) -> None:
    source = "grown = given | {3}\nkinds = [type(given).__name__, type(at).__name__, at + step, raw[:1]]"
    given = {"$py": "set", "value": [1, 2]}
    at = {"$py": "datetime", "value": "2024-02-29T12:00:00+01:00"}
    step = {"$py": "timedelta", "value": [1, 0, 0]}
    text = {"source": source, "filename": "node.py", "builtins": "full", "tagged": True}
    names = {"given": given, "at": at, "step": step, "raw": {"$py": "bytes", "value": "AGE="}}

    seen = begun.run("python", {**text, "namespace": names, "results": ["grown", "kinds"]})

    values = {name: found["value"] for name, found in seen.record["values"].items()}  # type: ignore[attr-defined]
    assert values["grown"] == {"$py": "set", "value": [1, 2, 3]}
    later = {"$py": "datetime", "value": "2024-03-01T12:00:00+01:00"}
    assert values["kinds"] == ["set", "datetime", later, {"$py": "bytes", "value": "AA=="}]


def test_result_that_is_not_ascii_takes_no_more_room_than_it_has(runner: GuestRunner) -> None:
    runner.begin(unit_result_bytes=250_000)

    record = run(runner, "result = 'ü' * 100_000", "result").record

    assert record["values"]["result"]["value"] == "ü" * 100_000  # type: ignore[index]


def script(runner: GuestRunner, source: str, **unit: object) -> Seen:
    """Run a text as a script."""
    text = {"source": source, "filename": "script.py", "builtins": "full", "as_script": True}
    return runner.run("python", {**text, "namespace": {}, "results": []}, **unit)


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ("", 0, b""),
        ("0", 0, b""),
        ("3", 3, b""),
        ("True", 1, b""),
        ("-1", 255, b""),
        ("'in words'", 1, b"in words\n"),
        ("None", 0, b""),
    ],
)
def test_script_that_exits_gives_its_own_status(
    begun: GuestRunner, given: str, status: int, said: bytes
) -> None:
    seen = script(begun, f"raise SystemExit({given})")

    assert (seen.end["wait_status"], seen.output("stderr")) == (status << 8, said)
    assert seen.record == {"status": "exited", "exit_code": status}


@pytest.mark.parametrize("name", ["exit", "quit"])
def test_script_may_leave_by_the_names_of_the_prompt(begun: GuestRunner, name: str) -> None:
    assert script(begun, f"{name}(3)").end["wait_status"] == 3 << 8


def test_script_that_raises_says_where_on_standard_error_and_in_its_record(begun: GuestRunner) -> None:
    seen = script(begun, "def f():\n    return 1 / 0\nf()")

    assert (seen.end["wait_status"], seen.record["line"]) == (256, 2)
    assert seen.output("stderr").decode().endswith("ZeroDivisionError: division by zero\n")


def test_script_ends_as_an_interpreter_ends(observing: GuestRunner) -> None:
    source = """
import atexit, threading, time
kept = open("kept.txt", "w")
kept.write("never closed")
atexit.register(lambda: print("at exit", flush=True))
go = threading.Event()
threading.Thread(target=lambda: (go.wait(), print("joined", flush=True))).start()
atexit.register(print, "first")
threading.Timer(0.05, go.set).start()
print("main", end="")
"""

    seen = script(observing, source)
    kept = script(observing, "print(open('kept.txt').read())", fresh_cwd=False)

    assert seen.end["wait_status"] == 0
    assert seen.output("stdout") == b"mainjoined\nfirst\nat exit\n"
    assert kept.output("stdout") == b"never closed\n"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            "def f(): pass\nkept = open('a', 'w')\nkept.write('left open')", id="file_beside_a_function"
        ),
        pytest.param(
            "import json\nkept = open('a', 'w')\nkept.write('left')\ndef f(): kept\njson.f = f",
            id="file_behind_a_function_that_a_library_holds",
        ),
        pytest.param(
            "class Own: pass\nown = Own()\nown.own = own\nown.file = open('a', 'w')\nown.file.write('left')",
            id="file_in_a_cycle",
        ),
        pytest.param(
            "import gzip\ndef f(): pass\nkept = gzip.GzipFile('a', 'wb', mtime=1)\nkept.write(b'left')",
            id="compressed_file",
        ),
        pytest.param("import sys\nsys.stdout = open('a', 'w')\nprint('elsewhere')", id="output_in_a_file"),
        pytest.param("from beside import kept\nkept.write('left')", id="file_of_a_module_beside"),
        pytest.param(
            "word = 'known'\nclass Last:\n    def __del__(self): print(word, Last)\nlast = Last()",
            id="finaliser_that_uses_names",
        ),
        pytest.param(
            "class Last:\n    def __del__(self): raise KeyError('late')\nlast = Last()",
            id="finaliser_that_raises",
        ),
        pytest.param(
            "import atexit, sys\natexit.register(sys.exit, 3)\natexit.register(print, 'at exit')",
            id="exit_function_that_exits",
        ),
        pytest.param(
            "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
            id="daemon_thread",
        ),
        pytest.param(
            "import sys\nsys.modules.clear()\nkept = open('a', 'w')\nkept.write('left')", id="no_modules"
        ),
        pytest.param("import sys\nsys.stdout = open('/dev/full', 'w')\nprint('lost')", id="output_is_lost"),
        pytest.param("import sys\nsys.stdout.close()", id="output_closed"),
        pytest.param("import sys\nsys.stdout.detach()", id="output_detached"),
        pytest.param(
            f"{TEE}    def flush(self): self.file.flush()\nsys.stdout = Tee()\nprint('both')",
            id="output_through_a_class",
        ),
        pytest.param(
            f"{TEE}    closed = False\n    def flush(self): sys.__stdout__.flush()\n"
            "sys.stdout = Tee()\nprint('both')",
            id="output_through_a_class_that_uses_names",
        ),
        pytest.param(
            f"{TEE}    def flush(self): pass\nsys.stdout = Tee()\nprint('both')",
            id="output_that_is_never_flushed",
        ),
        pytest.param(
            "import atexit, io, sys\natexit.register(sys.stdout.write, 'late')\nsys.stdout = io.StringIO()",
            id="output_of_an_exit_function_past_a_stream_in_memory",
        ),
        pytest.param(
            "import io, sys\nclass Last:\n    out = sys.stdout\n"
            "    def __del__(self): self.out.write('late')\nlast = Last()\nsys.stdout = io.StringIO()",
            id="output_of_a_finaliser_past_a_stream_in_memory",
        ),
        pytest.param(
            f"{BUSY_THREAD}class Last:\n    def __del__(self): time.sleep(0.02)\nlast = Last()",
            id="busy_daemon_thread_and_a_finaliser_that_waits",
        ),
        pytest.param("import sys\nsys.stdout = sys.stderr = None", id="no_output"),
    ],
)
def test_script_leaves_what_an_interpreter_leaves(
    observing: GuestRunner, tmp_path: Path, source: str
) -> None:
    beside = b"def f(): pass\nkept = open('a', 'w')"
    (tmp_path / "beside.py").write_bytes(beside)
    (tmp_path / "script.py").write_text(source)
    observing.file("beside.py", beside)

    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    plain = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, check=False, env=buffered
    )
    seen = script(observing, source)
    left = script(
        observing, "import os\nif os.path.exists('a'): print(open('a', 'rb').read())", fresh_cwd=False
    )

    assert (seen.end["wait_status"], seen.output("stdout")) == (plain.returncode << 8, plain.stdout)
    assert bool(seen.output("stderr")) == bool(plain.stderr)
    file = tmp_path / "a"
    assert left.output("stdout") == (f"{file.read_bytes()}\n".encode() if file.exists() else b"")


def test_script_finds_files_beside_it(observing: GuestRunner) -> None:
    observing.file("helper.py", b"WORD = 'helped'")

    assert script(observing, "from helper import WORD\nprint(WORD)").output("stdout") == b"helped\n"


def test_script_that_leaves_without_a_word_ends_with_what_it_said(observing: GuestRunner) -> None:
    seen = script(observing, "import os\nos._exit(0)")

    assert (seen.end["wait_status"], seen.records) == (0, [])
