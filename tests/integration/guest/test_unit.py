"""One unit, seen by the runner: results, output, limits, leftovers, and its files."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support.guests.guest_runner import GuestRunner

FORK_AWAY = """
import os, signal
def extract():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.pause()
        os._exit(0)
    os.wait()
    return 1
"""


def test_result_and_evidence_of_a_plain_unit(begun: GuestRunner) -> None:
    seen = begun.call("def extract(path): return {'path': path}", "a/b")

    assert seen.value == {"path": "a/b"}
    assert (seen.end["wait_status"], seen.end["end"], seen.end["results"]) == (0, "exited", 1)
    assert (seen.end["malformed"], seen.end["left_processes"], seen.end["events_dropped"]) == (None, 0, 0)
    assert 0 < float(str(seen.end["cpu_s"])) < float(str(seen.end["wall_s"])) + 0.01
    assert int(str(seen.end["peak_memory_bytes"])) > 2**20


def test_units_run_one_after_the_other_and_share_nothing_in_memory(begun: GuestRunner) -> None:
    source = "seen = []\ndef extract(x):\n    seen.append(x)\n    return seen"

    assert [begun.call(source, n).value for n in range(3)] == [[0], [1], [2]]


def test_exit_before_the_result_gives_no_result(observing: GuestRunner) -> None:
    seen = observing.call("import os\ndef extract(): os._exit(0)")

    assert (seen.end["results"], seen.end["wait_status"], seen.end["malformed"]) == (0, 0, None)


def test_second_result_is_counted_and_malformed(observing: GuestRunner) -> None:
    seen = observing.call(r"""
        import os
        def extract():
            os.write(3, b'\0\0\0\x1e\0\0\0\x04{"type":"result", "last":true}fake')
            return 1
    """)

    assert seen.end["results"] == 2
    assert seen.end["malformed"] == "more than one result"
    assert seen.records[0] == {"raw": b"fake"}


def test_garbage_on_the_report_pipe_is_malformed_and_drained(observing: GuestRunner) -> None:
    seen = observing.call(r"""
        import os
        def extract():
            os.write(3, b'\xff' * 150_000)
            return 1
    """)

    assert (seen.end["results"], seen.end["wait_status"], seen.end["end"]) == (0, 0, "exited")
    assert "frame over the cap" in str(seen.end["malformed"])


def test_result_that_is_cut_short_is_closed_and_malformed(observing: GuestRunner) -> None:
    seen = observing.call(r"""
        import os
        def extract():
            os.write(3, b'\0\0\0\x1f\0\0\0\x04{"type":"result", "last":false}half')
            os._exit(0)
    """)

    assert seen.records == [{"raw": b"half"}]
    assert (seen.end["results"], "in the middle" in str(seen.end["malformed"])) == (0, True)


def test_frames_forged_on_every_descriptor_stay_the_childs_own(observing: GuestRunner) -> None:
    seen = observing.call(r"""
        import os
        def extract():
            head = b'{"type":"unit_end","unit":0,"wait_status":0,"end":"exited"}'
            forged = len(head).to_bytes(4, "big") + bytes(4) + head
            written = []
            for descriptor in range(256):
                try:
                    os.write(descriptor, forged)
                    written.append(descriptor)
                except OSError:
                    pass
            return written
    """)

    assert seen.output("stdout") == seen.output("stderr") != b""
    assert "not a frame of a child: 'unit_end'" in str(seen.end["malformed"])
    assert seen.end["results"] == 0


def test_child_has_only_its_four_descriptors_and_no_environment(observing: GuestRunner) -> None:
    seen = observing.call("""
        import os
        def extract():
            return {"descriptors": sorted(os.listdir("/proc/self/fd")), "environment": dict(os.environb),
                    "leader": os.getsid(0) == os.getpid()}
    """)

    # The fifth is the listing's own.
    assert seen.value == {"descriptors": ["0", "1", "2", "3", "4"], "environment": {}, "leader": True}


def test_child_can_be_killed_first_and_writes_no_core(observing: GuestRunner) -> None:
    seen = observing.call("""
        import resource
        def extract():
            with open("/proc/self/oom_score_adj") as score:
                return [int(score.read()), resource.getrlimit(resource.RLIMIT_CORE)[1],
                        resource.getrlimit(resource.RLIMIT_NOFILE)[1]]
    """)

    assert seen.value == [1000, 0, 64]


def test_output_is_kept_at_head_and_tail_with_exact_counts(observing: GuestRunner) -> None:
    seen = observing.call("""
        import sys
        def extract():
            print("start", "." * 3000, end="")
            sys.stderr.write("bad")
            print("end", end="")
    """)

    assert seen.output("stdout", "head") == b"start " + b"." * 494
    assert seen.output("stdout", "tail") == b"." * 497 + b"end"
    assert (seen.end["stdout_bytes"], seen.end["stderr_bytes"]) == (3009, 3)
    assert seen.output("stderr") == b"bad"


def test_output_before_an_exception_is_kept(begun: GuestRunner) -> None:
    seen = begun.call("def extract():\n    print('so far')\n    1 / 0")

    assert seen.output("stdout") == b"so far\n"


def test_lines_printed_before_the_deadline_are_kept(begun: GuestRunner) -> None:
    seen = begun.call("def extract():\n    print('so far')\n    while True: pass", deadline_s=2)

    assert seen.output("stdout") == b"so far\n"


def test_endless_output_ends_as_output_limit(begun: GuestRunner) -> None:
    seen = begun.call("def extract():\n    while True: print('x' * 1000)")

    assert (seen.end["end"], seen.end["wait_status"]) == ("output_limit", signal.SIGKILL)
    assert int(str(seen.end["stdout_bytes"])) > 100_000


def test_too_large_result_ends_as_result_limit(begun: GuestRunner) -> None:
    seen = begun.call("def extract(): return 'x' * 300_000")

    assert seen.end["end"] == "result_limit"


def test_large_result_below_the_limit_arrives_whole(runner: GuestRunner) -> None:
    runner.begin(unit_result_bytes=4 * 2**20)

    assert runner.call("def extract(): return 'x' * 3_000_000").value == "x" * 3_000_000


def test_busy_loop_ends_at_its_deadline(begun: GuestRunner) -> None:
    seen = begun.call("def extract():\n    while True: pass", deadline_s=0.3)

    assert (seen.end["end"], seen.end["wait_status"], seen.end["results"]) == ("deadline", signal.SIGKILL, 0)
    assert 0.3 <= float(str(seen.end["wall_s"])) < 5


def test_child_that_stops_itself_ends_at_its_deadline(observing: GuestRunner) -> None:
    seen = observing.call(
        "import os, signal\ndef extract(): os.kill(os.getpid(), signal.SIGSTOP)", deadline_s=0.3
    )

    assert (seen.end["end"], seen.end["wait_status"]) == ("deadline", signal.SIGKILL)


def test_child_that_dies_of_a_signal_shows_it(observing: GuestRunner) -> None:
    seen = observing.call("import os, signal\ndef extract(): os.kill(os.getpid(), signal.SIGTERM)")

    assert (seen.end["end"], seen.end["wait_status"]) == ("exited", signal.SIGTERM)


def test_process_left_behind_in_its_own_session_is_counted_and_killed(observing: GuestRunner) -> None:
    seen = observing.call(FORK_AWAY)

    assert (seen.value, seen.end["left_processes"], seen.end["end"]) == (1, 1, "exited")
    assert observing.call("def extract(): return 2").end["left_processes"] == 0


def test_descendant_that_ends_shortly_after_the_child_is_not_left_behind(observing: GuestRunner) -> None:
    seen = observing.call("""
        import os
        def extract():
            reading, writing = os.pipe()
            if os.fork() == 0:
                os.close(writing)
                os.read(reading, 1)
                os._exit(0)
    """)

    assert (seen.end["left_processes"], seen.end["results"]) == (0, 1)


def test_forked_copy_that_returns_too_is_a_second_result(observing: GuestRunner) -> None:
    seen = observing.call("import os\ndef extract():\n    os.fork()\n    return 1")

    assert seen.end["results"] == 2


def test_standard_input_is_read_to_its_end(observing: GuestRunner) -> None:
    content = b"line\n" * 300_000

    seen = observing.call("import sys\ndef extract(): return len(sys.stdin.read())", stdin=content)

    assert seen.value == len(content)
    assert observing.call("import sys\ndef extract(): return sys.stdin.read()").value == ""


def test_standard_input_that_nobody_reads_holds_nothing_up(begun: GuestRunner) -> None:
    assert begun.call("def extract(): return 1", stdin=b"x" * 500_000).value == 1


def test_large_arguments_arrive_whole(begun: GuestRunner) -> None:
    assert begun.call("def extract(text): return len(text)", "x" * 3_000_000).value == 3_000_000


def test_files_are_laid_anew_in_an_empty_directory_for_each_unit(begun: GuestRunner, work: Path) -> None:
    begun.file("data/a.txt", b"given")
    source = """
        import pathlib
        def extract():
            here = sorted(str(p) for p in pathlib.Path().rglob("*"))
            there = pathlib.Path("data/a.txt").read_text()
            pathlib.Path("data/a.txt").write_text("changed")
            pathlib.Path("left").mkdir()
            return [here, there]
    """

    assert begun.call(source).value == [["data", "data/a.txt"], "given"]
    assert begun.call(source).value == [["data", "data/a.txt"], "given"]


def test_directory_is_kept_where_the_unit_asks_for_it(begun: GuestRunner) -> None:
    begun.file("a.txt", b"given")
    begun.call("import pathlib\ndef extract(): pathlib.Path('a.txt').write_text('changed')")

    seen = begun.call(
        "import pathlib\ndef extract(): return pathlib.Path('a.txt').read_text()", fresh_cwd=False
    )

    assert seen.value == "changed"


def test_file_sent_between_units_replaces_what_the_guest_put_in_its_place(
    begun: GuestRunner, work: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    begun.call(
        "import pathlib\ndef extract(to): pathlib.Path('data').symlink_to(to)", str(tmp_path / "outside")
    )
    begun.file("data/a.txt", b"given")

    begun.call("def extract(): pass", fresh_cwd=False)

    assert (work / "data/a.txt").read_bytes() == b"given"
    assert list((tmp_path / "outside").iterdir()) == []


def test_unit_starts_in_the_work_directory(begun: GuestRunner, work: Path) -> None:
    source = "import os.path\ndef extract(): return os.getcwd()"

    assert begun.call(source).value == str(work)


def test_policy_events_over_the_cap_are_counted(begun: GuestRunner) -> None:
    lines = "\n".join(["import math"] * 180)

    seen = begun.call(f"{lines}\ndef extract(): return 1")

    assert (len(seen.events), seen.end["events_dropped"]) == (150, 30)


@pytest.mark.parametrize("size", [1, 65_536, 65_537])
def test_report_of_any_size_is_read_before_the_end_is_sent(begun: GuestRunner, size: int) -> None:
    assert begun.call("def extract(n): return 'x' * n", size).value == "x" * size
