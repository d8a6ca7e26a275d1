"""User ids: no two containers and no two engines share one."""

from __future__ import annotations

from pathlib import Path

import pytest

from assayd.engines.oci.ranges import HOST_IDS, PER_BLOCK, IdRange, Ranges
from assayd.errors import EngineError


def test_containers_have_two_ids_each_and_get_those_that_came_back(tmp_path: Path) -> None:
    ranges = Ranges(tmp_path)
    first, second = ranges.take(), ranges.take()
    assert (first, second) == (HOST_IDS.first, HOST_IDS.first + 2)
    ranges.give_back(first)
    assert ranges.take() == first
    ranges.close()


def test_template_has_ids_one_after_the_other_and_leaves_gaps_to_containers(tmp_path: Path) -> None:
    ranges = Ranges(tmp_path)
    taken = [ranges.take(), ranges.take(128), ranges.take(), ranges.take(128)]
    assert taken == [HOST_IDS.first + number for number in (0, 2, 130, 132)]
    ranges.give_back(taken[1])
    assert [ranges.take(), ranges.take(127), ranges.take(126)] == [HOST_IDS.first + n for n in (2, 260, 4)]
    ranges.close()


def test_two_engines_have_blocks_of_their_own(tmp_path: Path) -> None:
    one, other = Ranges(tmp_path), Ranges(tmp_path)
    assert abs(one.take() - other.take()) >= PER_BLOCK
    one.close()
    other.close()


def test_block_of_an_engine_that_has_ended_is_used_again(tmp_path: Path) -> None:
    one = Ranges(tmp_path)
    first = one.take()
    one.close()
    other = Ranges(tmp_path)
    assert other.take() == first
    other.close()


def test_engine_without_a_block_is_refused(tmp_path: Path) -> None:
    one, other = (Ranges(tmp_path, IdRange(first=100_000, count=PER_BLOCK + 1)) for _ in range(2))
    one.take()
    with pytest.raises(EngineError) as caught:
        other.take()
    assert caught.value.code == "engine.no_ids"
    one.close()


def test_block_that_is_used_up_is_refused(tmp_path: Path) -> None:
    ranges = Ranges(tmp_path)
    taken = {ranges.take() for _ in range(PER_BLOCK // 2)}
    with pytest.raises(EngineError, match="all 4096 user ids"):
        ranges.take()
    assert max(taken) + 1 < HOST_IDS.first + PER_BLOCK
    ranges.close()


def test_ids_that_are_fewer_than_a_block_are_one(tmp_path: Path) -> None:
    ranges = Ranges(tmp_path, IdRange(first=100_000, count=5))
    assert [ranges.take(), ranges.take()] == [100_000, 100_002]
    with pytest.raises(EngineError, match="all 5 user ids"):
        ranges.take()
    ranges.close()
