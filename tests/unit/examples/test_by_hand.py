"""The provider that waits for a person: prompts and answers are files."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from assayd.model.prompting import SourcePart
from assayd_chains.provider import FixRequest
from assayd_chains.providers.command import CommandProvider

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "examples" / "providers" / "by_hand.py"
TIMEOUT_S = 20.0


def request(user: str) -> str:
    """Return the daemon's request on the program's standard input."""
    return json.dumps({"kind": "code", "attempt": 0, "prompt": {"system": "Answer JSON.", "user": user}})


class Asked:
    """The program while it waits for an answer."""

    def __init__(self, folder: Path, text: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.close()
        self._process.stdin = None

    def answer(self) -> str:
        """Return the program's output."""
        said, _ = self._process.communicate(timeout=TIMEOUT_S)
        return said

    def kill(self) -> None:
        """Kill the program, like the daemon."""
        self._process.kill()
        if self._process.stdout is not None and not self._process.stdout.closed:
            self._process.communicate()


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[list[Asked]]:
    """Return a list of programs that are killed after the test."""
    programs: list[Asked] = []
    yield programs
    for program in programs:
        program.kill()


def wait_for(path: Path) -> Path:
    end = time.monotonic() + TIMEOUT_S
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} doesn't exist"
        time.sleep(0.02)
    return path


def test_prompt_is_a_readable_file_and_answer_is_printed(tmp_path: Path, asked: list[Asked]) -> None:
    asked.append(Asked(tmp_path, request("Write a program.\n")))
    prompt = wait_for(tmp_path / "001.prompt.txt").read_text()
    came = json.loads((tmp_path / "001.request.json").read_text())

    (tmp_path / "001.answer.txt").write_text('{"code": "x"}\n')

    assert asked[0].answer() == '{"code": "x"}\n'
    assert prompt == "Answer JSON.\n\nWrite a program.\n"
    assert came["prompt"]["user"] == "Write a program.\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answered"]
    assert sorted(path.name for path in (tmp_path / "answered").iterdir()) == [
        "001.answer.txt",
        "001.prompt.txt",
        "001.request.json",
    ]


def test_numbers_go_on_after_answered_prompts(tmp_path: Path, asked: list[Asked]) -> None:
    asked.append(Asked(tmp_path, request("one")))
    wait_for(tmp_path / "001.prompt.txt")
    (tmp_path / "001.answer.txt").write_text("first")
    asked[0].answer()

    asked.append(Asked(tmp_path, request("two")))
    wait_for(tmp_path / "002.prompt.txt")
    (tmp_path / "002.answer.txt").write_text("second")

    assert asked[1].answer() == "second"


def test_same_request_after_a_kill_keeps_its_number(tmp_path: Path, asked: list[Asked]) -> None:
    asked.append(Asked(tmp_path, request("one")))
    wait_for(tmp_path / "001.prompt.txt")
    asked[0].kill()
    (tmp_path / "001.answer.txt").write_text("late")

    asked.append(Asked(tmp_path, request("one")))

    assert asked[1].answer() == "late"
    assert not (tmp_path / "002.request.json").exists()


def test_without_a_folder_it_prints_its_usage() -> None:
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr == "usage: by_hand.py FOLDER < REQUEST\n"


async def test_daemon_reads_the_answer_of_a_person(tmp_path: Path) -> None:
    passage = SourcePart(name="code", language="python", text="x")
    provider = CommandProvider("by_hand", [sys.executable, str(PROGRAM), str(tmp_path)])
    asked = FixRequest(system="Answer JSON.", user="Write a program.", passage=passage)
    (tmp_path / "001.answer.txt").write_text('{"code": "y = 1\\n", "reason": "As asked."}')

    reply = await provider.fix(asked, timeout_s=TIMEOUT_S)

    assert (reply.code, reply.reason) == ("y = 1\n", "As asked.")
    assert (tmp_path / "answered" / "001.prompt.txt").read_text() == "Answer JSON.\n\nWrite a program."
