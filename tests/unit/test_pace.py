"""How long a user rests for the time that it used."""

from __future__ import annotations

import pytest

from assayd.pace import ALONE_S, MOST_SEEN, SHARE, Pace


class Clock:
    now = 10.0

    def __call__(self) -> float:
        return self.now


def test_user_beside_another_rests_so_that_it_uses_its_share() -> None:
    clock = Clock()
    pace = Pace(clock=clock)
    pace.note(1)
    pace.note(2)
    pace.used(1, 0.3)
    rest_s = pace.rest_s(1)
    assert 0.3 / (0.3 + rest_s) == pytest.approx(SHARE)
    assert pace.rest_s(2) == 0
    clock.now += rest_s
    assert pace.rest_s(1) == 0


def test_rests_add_up() -> None:
    pace = Pace(clock=Clock())
    pace.note(1)
    pace.note(2)
    pace.used(1, 0.1)
    once = pace.rest_s(1)
    pace.used(1, 0.1)
    assert pace.rest_s(1) == pytest.approx(2 * once)


def test_user_who_is_alone_needs_no_rest() -> None:
    clock = Clock()
    pace = Pace(clock=clock)
    pace.note(2)
    pace.note(1)
    pace.used(1, 100)
    assert pace.rest_s(1) > 0
    clock.now += ALONE_S + 0.1
    assert pace.rest_s(1) == 0


def test_oldest_of_very_many_users_is_forgotten() -> None:
    pace = Pace(clock=Clock())
    for user in range(MOST_SEEN + 1):
        pace.note(user)
    pace.used(0, 1)
    pace.used(1, 1)
    assert (pace.rest_s(0), pace.rest_s(1) > 0) == (0, True)
