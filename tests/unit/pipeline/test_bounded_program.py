"""Programs that read hostile text: their results, and their limits."""

from __future__ import annotations

import sys

import pytest

from assayd_pipeline.worker import ProgramLimits, ask

LIMITS = ProgramLimits(cpu_s=1, wall_s=5.0, output_bytes=1000)


def answer(code: str, limits: ProgramLimits = LIMITS) -> tuple[int, bytes]:
    found = ask((sys.executable, "-S", "-c", code), b"text", limits=limits, environment={})
    return found.status, found.output


def test_program_answers_with_its_output_and_status() -> None:
    assert answer("import sys; print(sys.stdin.read()); sys.exit(3)") == (3, b"text\n")


def test_output_over_the_limit_ends_the_program() -> None:
    status, output = answer("while True: print('x' * 100)")
    assert (status < 0, len(output)) == (True, 1001)


@pytest.mark.slow
def test_computing_over_the_limit_ends_the_program() -> None:
    status, _ = answer("while True: pass")
    assert status < 0


def test_waiting_over_the_limit_ends_the_program() -> None:
    status, _ = answer("import time; time.sleep(60)", ProgramLimits(cpu_s=1, wall_s=0.2, output_bytes=10))
    assert status < 0


def test_program_that_does_not_exist_is_an_os_error() -> None:
    with pytest.raises(OSError, match="No such file"):
        ask(("/nonexistent/program",), b"", limits=LIMITS, environment={})
