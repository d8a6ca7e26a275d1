"""Tests of tests/e2e that don't pass on a gateway, with the reasons; all others run on both."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

OF_THE_NODE = "engine, containers and analysis are those of the node, whose own daemon this test is of"
LEAVES = "a gateway that stops waits for no attempt: nodes go on with it, and another gateway takes it over"

APART = {
    "test_engine_trouble.py": OF_THE_NODE,
    "test_rehearsal.py": "a copy of the state directory is none of a cluster, whose state is in PostgreSQL",
    "test_ends.py::test_nothing_is_left_of_a_daemon_that_was_stopped": OF_THE_NODE,
    "test_ends.py::test_stop_signal_lets_attempts_end_and_refuses_new_ones": LEAVES,
    "test_ends.py::test_second_stop_signal_breaks_off_what_runs_and_leaves_it_to_the_next_run": LEAVES,
    "test_ends.py::test_waiting_client_and_follower_do_not_hold_up_the_stop": LEAVES,
    "test_ends.py::test_hang_up_signal_reloads_all_policies_or_none": (
        "the node reloads by itself; until its next beat its profiles are others, and it takes no work"
    ),
    "test_repair.py::test_trouble_of_ours_is_never_shown_to_a_provider": (
        "a run that is lost is another node's to repeat; here there is one"
    ),
    "test_observed.py::test_attempt_is_seen_in_log_events_and_metrics_under_its_request": OF_THE_NODE,
    "test_observed.py::test_daemon_without_an_engine_is_up_and_says_what_it_lacks": OF_THE_NODE,
    "test_kind_of_another_distribution.py::test_doctor_runs_its_samples": (
        "samples are run by the doctor of each node's own daemon"
    ),
    "test_egress.py::test_refused_access_fails_the_attempt_and_is_told_everywhere": (
        "the access is counted and logged by the node's own daemon"
    ),
}


def exclude_time(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that don't pass on a gateway."""
    out = [item for item in items if _is_apart(item)]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]


def _is_apart(item: pytest.Item) -> bool:
    names: Sequence[str] = (item.path.name, f"{item.path.name}::{item.originalname}")  # type: ignore[attr-defined]
    return any(name in APART for name in names)
