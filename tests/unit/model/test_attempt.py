"""The state transitions of an attempt."""

from __future__ import annotations

from datetime import UTC, datetime

from assayd.model.attempt import TRANSITIONS, Attempt, State
from assayd.model.submission import Peer


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


def test_attempts_of_a_batch_take_turns_together_and_singles_with_those_of_their_program():
    def sent(pid: int, batch_id: str | None = None) -> Attempt:
        return Attempt(
            id="01",
            kind="extractor",
            policy="default",
            input_digest="",
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
            peer=Peer(uid=1000, gid=1000, pid=pid),
            batch_id=batch_id,
        )

    assert sent(7).flow == sent(7).flow
    assert sent(7).flow != sent(8).flow
    assert sent(7, "B").flow == sent(8, "B").flow != sent(7).flow
