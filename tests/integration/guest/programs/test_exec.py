"""`exec`: another program replaces the child, and its wait status is the result."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from support.guests.guest_runner import GuestRunner, Seen

NOT_STARTED = 127 << 8


def run(runner: GuestRunner, *argv: str, env: dict[str, str] | None = None, **unit: object) -> Seen:
    """Run a program."""
    return runner.run("exec", {"argv": list(argv), "env": env or {}}, **unit)


def python(runner: GuestRunner, text: str, *argv: str, **unit: object) -> Seen:
    """Run a text with the current interpreter."""
    return run(runner, sys.executable, "-I", "-S", "-c", text, *argv, **unit)  # type: ignore[arg-type]


def test_program_ends_with_its_own_status_and_writes_no_record(observing: GuestRunner) -> None:
    ended = [python(observing, f"raise SystemExit({code})") for code in (0, 3, 127)]

    assert [seen.end["wait_status"] for seen in ended] == [0, 3 << 8, 127 << 8]
    assert [(seen.records, seen.end["malformed"], seen.events) for seen in ended] == [([], None, [])] * 3


def test_program_gets_arguments_standard_input_and_the_work_directory(
    observing: GuestRunner, work: Path
) -> None:
    text = "import os, sys; print(sys.argv[1:], sys.stdin.read(), os.getcwd()); print('e', file=sys.stderr)"

    seen = python(observing, text, "a b", "ü", stdin=b"given")

    assert seen.output("stdout").decode() == f"['a b', 'ü'] given {work}\n"
    assert seen.output("stderr") == b"e\n"


def test_environment_is_path_and_language_and_what_was_added(
    runner: GuestRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.begin(mode="observe", allow_exec=True)
    text = "import json, os; print(json.dumps(dict(os.environ)))"

    found = json.loads(python(runner, text, env={"HOME": "/sandbox"}).output("stdout"))

    assert found.pop("HOME") == "/sandbox"
    assert found.keys() <= {"PATH", "LANG", "LC_CTYPE"}  # the last is the interpreter's own doing


def test_name_without_a_path_is_looked_up_where_programs_are(observing: GuestRunner, tmp_path: Path) -> None:
    (tmp_path / "named").symlink_to(sys.executable)

    found = run(observing, "named", "-c", "", env={"PATH": f"/nowhere:{tmp_path}"})

    assert (found.end["wait_status"], found.records) == (0, [])


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (("no-such-program",), "ENOENT"),
        (("/no/such/program",), "ENOENT"),
        (("/",), "EACCES"),
        (("./given.txt",), "EACCES"),
        (("./given.bin",), "ENOEXEC"),
        (("/bin/sh", "nul\0byte"), "EINVAL"),
    ],
)
def test_program_that_cannot_be_started_is_told_by_a_record(
    observing: GuestRunner, work: Path, argv: tuple[str, ...], error: str
) -> None:
    observing.file("given.txt", b"text")
    (work / "given.bin").write_bytes(b"\x7fELF")
    (work / "given.bin").chmod(0o755)

    seen = run(observing, *argv)

    assert (seen.record["status"], seen.record["error"]) == ("not_executed", error)
    assert (seen.end["wait_status"], seen.output("stderr")) == (NOT_STARTED, b"")


def test_program_is_refused_where_the_attempt_starts_none(begun: GuestRunner) -> None:
    seen = python(begun, "")

    assert (seen.record["error"], seen.end["wait_status"]) == ("EPERM", NOT_STARTED)


def test_program_has_no_way_to_write_a_record(observing: GuestRunner) -> None:
    text = """
import os
held = sorted(int(name) for name in os.listdir("/proc/self/fd"))
for number in range(3, 64):
    try:
        os.write(number, b"\\0\\0\\0\\x1c\\0\\0\\0\\0" + b'{"type":"result","last":true}')
    except OSError:
        pass
print(held)
"""

    seen = python(observing, text)

    # The fourth is the listing itself.
    assert (seen.output("stdout"), seen.records, seen.end["malformed"]) == (b"[0, 1, 2, 3]\n", [], None)


def test_program_has_all_signals_at_default(observing: GuestRunner) -> None:
    text = """
import signal
with open("/proc/self/status") as status:
    print([line.split()[1] for line in status if line.startswith(("SigBlk", "SigCgt"))][0])
"""

    seen = python(observing, text)
    died = run(observing, "/bin/sh", "-c", "kill -PIPE $$")

    assert seen.output("stdout") == b"0000000000000000\n"
    assert died.end["wait_status"] == signal.SIGPIPE


def test_program_past_its_deadline_is_killed_with_all_that_it_started(observing: GuestRunner) -> None:
    text = "import os, signal\nif os.fork() == 0: os.setsid()\nsignal.pause()"

    late = python(observing, text, deadline_s=0.5)

    assert (late.end["end"], late.end["wait_status"]) == ("deadline", signal.SIGKILL)
    assert python(observing, "").end["left_processes"] == 0


def test_process_that_a_program_leaves_is_counted_and_killed(observing: GuestRunner) -> None:
    text = "import os, signal\nif os.fork() == 0: os.setsid(); signal.pause()"

    seen = python(observing, text)

    assert (seen.end["wait_status"], seen.end["left_processes"]) == (0, 1)


def test_output_over_the_cap_ends_the_program(observing: GuestRunner) -> None:
    seen = python(observing, "while True: print('x' * 1000)")

    assert seen.end["end"] == "output_limit"


def test_programs_share_the_work_directory_where_they_ask_for_it(observing: GuestRunner) -> None:
    python(observing, "open('left.txt', 'w').write('left')")

    kept = python(observing, "print(open('left.txt').read())", fresh_cwd=False)
    fresh = python(observing, "import os; print(os.listdir())")

    assert (kept.output("stdout"), fresh.output("stdout")) == (b"left\n", b"[]\n")
