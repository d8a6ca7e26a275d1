from __future__ import annotations

import pytest

from assayd.attempts.acceptance import compute_excess, compute_excess_for_space, share


@pytest.mark.parametrize(
    ("held", "limit", "level"),
    [
        ([], 10, 0),
        ([3, 4], 10, 4),
        ([3, 7], 10, 7),
        ([3, 8], 10, 7),
        ([1, 8, 9], 10, 4),
        ([5, 5, 5], 9, 3),
        ([5, 5], 0, 0),
        ([5, 5], -1, 0),
    ],
)
def test_share_lets_all_fit_and_cuts_only_the_largest(held: list[int], limit: int, level: int) -> None:
    assert share(held, limit) == level
    assert sum(min(size, level) for size in held) <= max(limit, 0)


def test_excess_is_of_those_who_hold_more_than_their_share() -> None:
    assert compute_excess({1: 1, 2: 8, 3: 9}, 10) == {2: 4, 3: 5}
    assert compute_excess({1: 1, 2: 8}, 10) == {}


def test_room_is_made_by_the_largest_and_what_is_small_stays() -> None:
    assert compute_excess_for_space({1: 2, 2: 8, 3: 9}, 3, untouched=2) == {2: 1, 3: 2}
    assert compute_excess_for_space({1: 2, 2: 8, 3: 9}, 100, untouched=2) == {2: 6, 3: 7}
    assert compute_excess_for_space({1: 2, 2: 8}, 0, untouched=2) == {}
