"""Whether the daemon of a record has gone: told only where that is certain."""

from __future__ import annotations

import subprocess
import sys

import pytest

from assayd.engines.oci.owner import has_process_ended, own_process_mark

TELL = "from assayd.engines.oci.owner import own_process_mark; print(own_process_mark())"


def changed(place: int, value: str) -> str:
    parts = own_process_mark().split(":")
    parts[place] = value
    return ":".join(parts)


def test_process_that_lives_has_not_gone() -> None:
    assert not has_process_ended(own_process_mark())


def test_process_that_has_ended_has_gone() -> None:
    mark = subprocess.run([sys.executable, "-c", TELL], capture_output=True, text=True, check=True).stdout
    assert mark.strip().count(":") == own_process_mark().count(":")
    assert has_process_ended(mark.strip())


def test_number_that_another_process_has_by_now_is_of_one_that_has_gone() -> None:
    assert has_process_ended(changed(3, "1"))


def test_process_of_an_earlier_boot_has_gone() -> None:
    assert has_process_ended(changed(0, "00000000-0000-0000-0000-000000000000"))


@pytest.mark.parametrize(
    "mark",
    ["", "1", "a:b:c:d", "::::", changed(1, "4026531999")],
    ids=["none", "one part", "no numbers", "empty parts", "another namespace"],
)
def test_of_another_namespace_or_by_no_mark_nobody_can_tell(mark: str) -> None:
    assert not has_process_ended(mark)
