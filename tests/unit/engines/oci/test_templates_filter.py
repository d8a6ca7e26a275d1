"""The system call filter as the kernel's instructions."""

from __future__ import annotations

import json
import struct

import pytest

from assayd.engines.oci.templates import compile_filter
from assayd.errors import EngineError
from assayd.package_data import get_shared_data_path

PROFILE = get_shared_data_path("seccomp", "container.json").read_text()
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
RETURN = 0x06


def ends(program: bytes) -> set[int]:
    """Return all possible results of a filter."""
    return {operand for code, _, _, operand in struct.iter_unpack("=HBBI", program) if code == RETURN}


def test_profile_allows_refuses_and_denies_the_existence_of_calls_and_nothing_else() -> None:
    # 0 ends a program of another architecture: the process is killed there. ERRNO | 0 is a call that is
    # answered as done.
    assert ends(compile_filter(PROFILE, "x86_64")) - {0} == {ALLOW, ERRNO | 0, ERRNO | 1, ERRNO | 38}


def test_condition_on_an_argument_becomes_instructions() -> None:
    profile = json.loads(PROFILE)
    without = {**profile, "syscalls": [rule for rule in profile["syscalls"] if "args" not in rule]}
    assert len(compile_filter(json.dumps(without), "x86_64")) < len(compile_filter(PROFILE, "x86_64"))


@pytest.mark.parametrize(("text", "machine"), [("{}", "x86_64"), ("no", "x86_64"), (PROFILE, "riscv64")])
def test_what_is_no_profile_of_this_machine_is_refused(text: str, machine: str) -> None:
    with pytest.raises(EngineError) as caught:
        compile_filter(text, machine)
    assert caught.value.code == "engine.seccomp"
