"""A cluster on two machines; one is cut off, loses power, and has its clock moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cluster.two_machines import as_json, face_all, two_machines

pytestmark = pytest.mark.system

PROGRAMS = 24


def test_every_program_is_judged_once_whatever_happens_to_the_second_machine(tmp_path: Path) -> None:
    with two_machines(tmp_path) as both:
        faced = list(face_all(both, PROGRAMS))

    shown = as_json(faced)
    print(shown)
    assert [each.fault for each in faced if not each.holds()] == [], shown
    assert sum(each.programs for each in faced) == PROGRAMS
    assert sum(each.on_the_other_machine for each in faced) > 0, shown
