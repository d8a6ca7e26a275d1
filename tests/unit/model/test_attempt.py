"""The moves of an attempt."""

from __future__ import annotations

from assayd.model.attempt import TRANSITIONS, State


def test_every_state_but_the_last_leads_on_and_the_last_leads_nowhere():
    assert set(TRANSITIONS) == set(State)
    assert TRANSITIONS[State.FINISHED] == frozenset()
    assert all(TRANSITIONS[state] for state in State if state is not State.FINISHED)


def test_nothing_finishes_without_having_been_judged():
    assert [state for state in State if State.FINISHED in TRANSITIONS[state]] == [State.JUDGING]


def test_nothing_runs_without_having_been_checked_and_leased():
    assert {state for state in State if State.RUNNING in TRANSITIONS[state]} == {State.LEASING}
    assert {state for state in State if State.LEASING in TRANSITIONS[state]} == {
        State.CHECKING,
        State.LEASING,
        State.RUNNING,
    }
