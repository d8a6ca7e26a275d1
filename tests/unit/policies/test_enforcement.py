"""The mode of a profile: inheritance, composition and allowed overrides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assayd.errors import RequestError
from assayd.model.policy import Enforcement, ExecutionPolicy
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies, merge_policies, tighten_policy

ENFORCING = ExecutionPolicy(name="a")
REPORTING = replace(ENFORCING, name="b", enforcement=Enforcement.REPORT)


def test_contained_only_reports_and_keeps_limits_and_network_of_the_container() -> None:
    contained = load_policies([get_shared_data_path("policies")]).get("contained")
    assert contained.is_report_only
    assert not contained.approvable
    assert (contained.network.mode, contained.image, contained.exec) == ("blocked", None, False)


@pytest.mark.parametrize(("first", "second"), [(ENFORCING, REPORTING), (REPORTING, ENFORCING)])
def test_profiles_composed_report_if_one_of_them_does(
    first: ExecutionPolicy, second: ExecutionPolicy
) -> None:
    assert merge_policies(first, second).enforcement is Enforcement.REPORT


def test_request_can_ask_for_enforcement_and_not_for_the_opposite() -> None:
    assert tighten_policy(REPORTING, {"enforcement": "enforce"}).enforcement is Enforcement.ENFORCE
    with pytest.raises(RequestError) as refused:
        tighten_policy(ENFORCING, {"enforcement": "report"})
    assert (refused.value.code, refused.value.field) == ("override.wider", "overrides.enforcement")


@pytest.mark.parametrize("value", ["off", 1, ["report"]])
def test_unknown_mode_in_a_request_is_refused(value: object) -> None:
    with pytest.raises(RequestError) as refused:
        tighten_policy(REPORTING, {"enforcement": value})
    assert refused.value.code == "override.type"


def test_two_modes_have_two_digests() -> None:
    assert (
        tighten_policy(REPORTING, {"enforcement": "enforce"}).digest
        != merge_policies(REPORTING, REPORTING).digest
    )


def test_results_under_report_are_approvable_only_by_the_profiles_word() -> None:
    assert ENFORCING.approvable
    assert not REPORTING.approvable
    assert replace(REPORTING, approve_reported=True).approvable
