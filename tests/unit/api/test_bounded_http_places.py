"""Places for waiting requests when others hold many."""

from assayd.api.bounded_http import ConnectionSlots


def take_all(places: ConnectionSlots, user: int) -> int:
    taken = 0
    while places.acquire(user):
        taken += 1
    return taken


def test_user_never_holds_more_places_than_are_free() -> None:
    places = ConnectionSlots(256)
    assert take_all(places, 1) == 113  # of 224: the last time, 112 were held and 112 free


def test_third_user_finds_places_beside_two_who_hold_all_they_can() -> None:
    places = ConnectionSlots(256)
    take_all(places, 1)
    take_all(places, 2)
    take_all(places, 1)
    assert take_all(places, 3) >= 16


def test_operator_finds_a_place_when_users_have_taken_all_that_they_can() -> None:
    places = ConnectionSlots(16)
    for user in range(20):
        take_all(places, user)
    assert places.total == 14
    assert places.acquire(0, is_operator=True)
    assert places.acquire(0, is_operator=True)
    assert not places.acquire(0, is_operator=True)


def test_place_that_was_given_back_is_free() -> None:
    places = ConnectionSlots(1)
    assert places.acquire(1)
    assert not places.acquire(2)
    places.release(1)
    assert places.acquire(2)
