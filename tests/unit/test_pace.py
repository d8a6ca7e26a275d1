"""How long a user rests for the time that it used."""

from __future__ import annotations

import pytest

from assayd.pace import ALONE_S, LOOK_S, MOST_REST_S, MOST_SEEN, SHARE, UserThrottle


class Clock:
    now = 10.0

    def __call__(self) -> float:
        return self.now


def rest_of(pace: UserThrottle, clock: Clock, user: int) -> float:
    """Let a user rest, asking repeatedly like callers do; return the duration."""
    began = clock.now
    while rest_s := pace.rest_s(user):
        clock.now += rest_s
        pace.note(2)
    return clock.now - began


def test_user_beside_another_rests_so_that_it_uses_its_share() -> None:
    clock = Clock()
    pace = UserThrottle(clock=clock)
    pace.note(1)
    pace.note(2)
    pace.used(1, 0.1)
    assert pace.rest_s(2) == 0
    assert 0.1 / (0.1 + rest_of(pace, clock, 1)) == pytest.approx(SHARE)


def test_rests_add_up() -> None:
    clock = Clock()
    pace = UserThrottle(clock=clock)
    pace.note(2)
    pace.used(1, 0.01)
    pace.used(1, 0.01)
    assert rest_of(pace, clock, 1) == pytest.approx(0.02 * (1 / SHARE - 1))


def test_rest_has_an_end_however_much_was_used() -> None:
    clock = Clock()
    pace = UserThrottle(clock=clock)
    pace.note(2)
    pace.used(1, 1000)
    assert rest_of(pace, clock, 1) == pytest.approx(MOST_REST_S)


def test_what_a_user_used_while_it_was_alone_does_not_count_later() -> None:
    clock = Clock()
    pace = UserThrottle(clock=clock)
    pace.note(1)
    pace.used(1, 1000)
    pace.note(2)
    assert pace.rest_s(1) == 0


def test_user_goes_on_once_the_others_have_gone() -> None:
    clock = Clock()
    pace = UserThrottle(clock=clock)
    pace.note(2)
    clock.now += 0.9 * ALONE_S
    pace.used(1, 1000)
    assert pace.rest_s(1) == LOOK_S
    clock.now += 0.2 * ALONE_S
    assert pace.rest_s(1) == 0


def test_rests_of_few_users_are_kept() -> None:
    pace = UserThrottle(clock=Clock())
    pace.note(-1)
    for user in range(MOST_SEEN + 1):
        pace.used(user, 1)
    assert (pace.rest_s(0), pace.rest_s(1) > 0) == (0, True)
