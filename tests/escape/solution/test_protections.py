"""Each protection of a pair matters: with it a cheat sees nothing, and without it the same cheat works.

The runner is one without a container and without capabilities; a patch takes the protection out of it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.guests.guest_runner import guest_runner

CHEATS = Path(__file__).parent / "cheats" / "looking"
SECRET = "hidden-4711"
COMMON = {
    "text": f"SECRET = '{SECRET}'\ndef check(candidate):\n    candidate([1])\n",
    "texts": [], "context": "", "entry_point": "total", "names": [], "modules": [], "trusted": False,
}  # fmt: skip
POWERLESS = """
import ctypes
ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
"""
"""Takes the capabilities of root away, which containers don't have."""
NOT_DUMPABLE = """
import ctypes
from assayd.guest import kernel
def set_dumpable(_):
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
    ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)  # for kernels with Yama
kernel.set_dumpable = set_dumpable
"""
FILTER = """
from assayd.guest import kernel
kernel.load_filter = lambda program: None
"""
CLOSED = """
import os, stat
from assayd.guest import apart
close, keep_only = os.closerange, apart._close_other_descriptors
def keep_frames(control, work):
    frames = next(fd for fd in range(7, 64) if stat.S_ISFIFO(os.fstat(fd).st_mode))
    os.closerange = lambda low, high: [close(fd, fd + 1) for fd in range(low, min(high, 64)) if fd != frames]
    return keep_only(control, work)
apart._close_other_descriptors = keep_frames
"""
"""Leaves the pipe open from which the runner reads the daemon's frames."""
REACHING = {
    "other_memory": (NOT_DUMPABLE,),
    "proc_fds": (NOT_DUMPABLE,),
    "ptrace": (NOT_DUMPABLE, FILTER),
    "process_vm": (NOT_DUMPABLE, FILTER),
}
"""Cheats, and the protections that all have to be gone before they work."""
OTHER_PROCESS = """
def other_process():
    import os
    with open(f'/proc/{os.getppid()}/stat') as stat:
        runner = stat.read().rpartition(')')[2].split()[1]
    with open(f'/proc/{runner}/task/{runner}/children') as children:
        return [pid for pid in children.read().split() if int(pid) != os.getppid()]
"""
"""The solution's parent is the nursery, and the runner, its parent, is also that of the tests' process."""
READS_AHEAD = """
import os, time
def total(values):
    end = time.monotonic() + TIME
    while time.monotonic() < end:
        for fd in range(7, 64):
            try:
                os.set_blocking(fd, False)
                found = os.read(fd, 1 << 16)
            except OSError:
                continue
            if b'hidden-4711' in found:
                print('SEEN', fd, flush=True)
                return
        time.sleep(0.01)
"""
"""Looks for frames of the next test in the descriptors that the runner has open."""


def aimed(cheat: str) -> str:
    """Return a cheat that looks at the tests' process of its pair alone: there is no container around it."""
    code = (CHEATS / f"{cheat}.py").read_text(encoding="utf-8")
    assert code.count("os.listdir('/proc')") == 1
    return OTHER_PROCESS + code.replace("os.listdir('/proc')", "other_process()")


def printed(work: Path, code: str, *removed: str) -> bytes:
    """Run a test without protections; return what its solution printed."""
    with guest_runner(work, patch=POWERLESS + "".join(removed)) as runner:
        runner.begin(mode="observe", hidden_tests=True, max_processes=8)
        runner.send("solution", json.dumps({"code": code, "context": "", "entry_point": "total"}).encode())
        runner.send("common", json.dumps(COMMON).encode())
        return runner.run("tests", {"do": "check"}, deadline_s=2.0).output("stdout")


@pytest.mark.parametrize("cheat", REACHING)
def test_cheat_that_reaches_another_process_works_only_without_its_protection(
    tmp_path: Path, cheat: str
) -> None:
    code = aimed(cheat)
    assert b"SEEN" not in printed(tmp_path, code)
    assert b"SEEN" in printed(tmp_path, code, *REACHING[cheat])


@pytest.mark.parametrize("cheat", ["ptrace", "process_vm"])
@pytest.mark.parametrize("removed", [NOT_DUMPABLE, FILTER], ids=["not dumpable", "filter"])
def test_each_of_two_protections_holds_alone(tmp_path: Path, cheat: str, removed: str) -> None:
    code = aimed(cheat)
    assert b"SEEN" not in printed(tmp_path, code, removed)


@pytest.mark.parametrize(("removed", "sees"), [("", False), (CLOSED, True)], ids=["closed", "left open"])
def test_descriptors_that_are_left_open_show_the_next_test(tmp_path: Path, removed: str, sees: bool) -> None:
    code = READS_AHEAD.replace("TIME", "3" if sees else "0.3")
    with guest_runner(tmp_path, patch=POWERLESS + removed) as runner:
        runner.begin(mode="observe", hidden_tests=True, max_processes=8)
        runner.send("solution", json.dumps({"code": code, "context": "", "entry_point": "total"}).encode())
        runner.send("common", json.dumps({**COMMON, "text": ""}).encode())
        runner.start("tests", {"do": "case", "args": [1], "kwargs": {}}, more=True)
        runner.send("arguments", json.dumps({"do": "case", "args": [SECRET], "kwargs": {}}).encode())
        frames = runner.until("unit_end")
    output = b"".join(body for header, body in frames if header["type"] == "output")
    assert (b"SEEN" in output) == sees
