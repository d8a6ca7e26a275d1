"""The conversation with the runner: order, faults and end."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
from pathlib import Path

import pytest

from assayd.guest.frames import PROTOCOL
from support.guests.guest_runner import PATIENCE_S, GuestRunner, call_of


def fault_of(runner: GuestRunner) -> str:
    """Return the message of the next frame, a fault, after which the runner exits."""
    header, _ = runner.receive()
    assert header["type"] == "fault"
    assert runner.process.wait(10) == 70
    return str(header["message"])


def test_ready_tells_protocol_python_and_what_could_not_be_preloaded(runner: GuestRunner) -> None:
    ready = runner.hello("json", "no_such_module")

    assert ready["protocol"] == PROTOCOL
    assert ready["python"] == ".".join(map(str, sys.version_info[:3]))
    assert (ready["preloaded"], ready["preload_failed"]) == (1, ["no_such_module"])
    assert ready["cgroup"] in {0, 1, 2}


def test_another_protocol_is_a_fault(runner: GuestRunner) -> None:
    runner.send("hello", protocol=PROTOCOL + 1, preload=[])

    assert "speaks protocol" in fault_of(runner)


@pytest.mark.parametrize("kind", ["begin", "unit", "finish", "nonsense"])
def test_first_frame_other_than_hello_is_a_fault(runner: GuestRunner, kind: str) -> None:
    runner.send(kind)

    assert "hello was expected" in fault_of(runner)


def test_unit_before_begin_is_a_fault(runner: GuestRunner) -> None:
    runner.hello()
    runner.send("unit")

    assert "begin was expected" in fault_of(runner)


def test_frame_while_a_unit_runs_is_a_fault_under_an_allowlist(runner: GuestRunner) -> None:
    runner.begin(network="allowlist")
    runner.start("call", call_of("while True: pass"))
    runner.until("started")
    runner.send("finish")

    assert "finish while a unit runs" in fault_of(runner)


def test_units_sent_ahead_run_one_after_the_other(begun: GuestRunner) -> None:
    for number in range(3):
        begun.start("call", call_of(f"def extract(): return {number}"), more=number < 2)
    begun.send("finish")

    kinds = [header["type"] for header, _ in begun.until("bye")]
    assert [kind for kind in kinds if kind in {"started", "unit_end", "bye"}] == [
        *["started", "unit_end"] * 3, "bye",
    ]  # fmt: skip


def test_frames_of_the_next_unit_stay_unread_while_one_lives(begun: GuestRunner) -> None:
    begun.start("call", call_of("def extract():\n    while True: pass"), more=True)
    begun.until("started")
    begun.start("call", call_of("def extract(): return 1"))

    unread = bytearray(4)
    fcntl.ioctl(begun.process.stdin, termios.FIONREAD, unread)
    assert int.from_bytes(unread, sys.byteorder) > 0


def test_hang_up_behind_unread_frames_ends_the_runner(begun: GuestRunner) -> None:
    begun.start("call", call_of("def extract():\n    while True: pass"), more=True)
    begun.until("started")
    begun.start("call", call_of("def extract(): return 1"))
    begun.process.stdin.close()

    assert begun.process.wait(PATIENCE_S) == 0


def test_bytes_that_are_no_frame_are_a_fault(runner: GuestRunner) -> None:
    runner.process.stdin.write(b"\xff" * 64)

    assert "frame over the cap" in fault_of(runner)


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../up", "a/../../b", "a//b", "./a", "a/", "tab\there", "x" * 300, "d/" * 20 + "f"],
)
def test_file_outside_the_work_directory_is_a_fault(begun: GuestRunner, path: str) -> None:
    begun.send("file", b"", path=path, append=False)

    assert fault_of(begun).startswith("InvalidRequest: ")


def test_part_of_a_file_that_was_not_begun_is_a_fault(begun: GuestRunner) -> None:
    begun.send("file", b"", path="a", append=True)

    assert "nothing to append to" in fault_of(begun)


@pytest.mark.parametrize(
    ("name", "value"),
    [("deadline_s", 0), ("deadline_s", "1"), ("fresh_cwd", 1), ("unit", "0"), ("program", None)],
)
def test_unit_with_a_field_of_another_type_is_a_fault(begun: GuestRunner, name: str, value: object) -> None:
    header = {"unit": 0, "name": "x", "program": "call", "deadline_s": 1, "fresh_cwd": True, name: value}
    begun.send("unit", b"{}", **header)

    assert name in fault_of(begun)


def test_limit_that_is_missing_is_a_fault(runner: GuestRunner) -> None:
    runner.hello()
    runner.send("begin", limits={}, network={"mode": "blocked"}, imports={})

    assert "max_processes" in fault_of(runner)


def test_unknown_program_ends_its_unit_and_not_the_conversation(begun: GuestRunner) -> None:
    seen = begun.run("levitate", {})

    assert (seen.end["malformed"], seen.end["wait_status"]) == ("unknown program", 127 << 8)
    assert begun.call("def extract():\n    return 1").value == 1


def test_finish_without_outputs_says_goodbye_and_the_runner_leaves_when_told(begun: GuestRunner) -> None:
    ((header, _),) = begun.finish()

    assert header["outputs_dropped"] == []
    begun.send("leave")
    assert begun.process.wait(10) == 0


@pytest.mark.parametrize("kind", ["begin", "unit", "finish"])
def test_frame_after_the_goodbye_is_a_fault(begun: GuestRunner, kind: str) -> None:
    begun.finish()
    begun.send(kind)

    assert "leave was expected" in fault_of(begun)


def test_end_of_input_ends_the_runner(begun: GuestRunner) -> None:
    begun.process.stdin.close()

    assert begun.process.wait(10) == 0


def test_end_of_input_while_a_unit_runs_ends_the_unit_too(observing: GuestRunner) -> None:
    observing.start("call", call_of("import os\nprint(os.getpid())\nwhile True: pass"))
    pid = int(observing.until("output")[-1][1])
    observing.process.stdin.close()

    assert observing.process.wait(10) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


STANDARD_SIGNALS = (1 << 31) - 1
"""Those above are the C library's own, or real-time signals as whoever starts us has left them."""


def test_runner_has_no_signal_handlers(begun: GuestRunner) -> None:
    lines = Path(f"/proc/{begun.process.pid}/status").read_text().splitlines()
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)

    assert int(fields["SigCgt"], 16) == 0
    ignored = int(fields["SigIgn"], 16) & STANDARD_SIGNALS
    assert ignored == (1 << signal.SIGPIPE - 1) | (1 << signal.SIGXFSZ - 1)


def test_output_is_sent_while_its_unit_runs(begun: GuestRunner) -> None:
    begun.start(
        "call", call_of("import time\ndef extract():\n    print('said', flush=True)\n    time.sleep(60)")
    )

    frames = begun.until("output")

    assert frames[-1][1] == b"said\n"
