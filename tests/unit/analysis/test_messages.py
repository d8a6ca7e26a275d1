"""The state that the daemon and its workers keep about each other."""

from __future__ import annotations

from assayd.analysis.messages import MAX_KNOWN_POLICIES, remember_policy


def test_both_sides_forget_the_same_policies():
    known: dict[str, int] = {}
    for number in range(MAX_KNOWN_POLICIES + 5):
        remember_policy(known, str(number), number)
    assert len(known) == MAX_KNOWN_POLICIES
    assert "4" not in known
    assert "5" in known
