"""``[sql.rules]``: how levels are read, inherited, merged and tightened."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from assayd.errors import RequestError
from assayd.model.policy import ExecutionPolicy, RuleLevel, SqlPolicy
from assayd.package_data import get_shared_data_path
from assayd.policies import PolicySet, describe_policy, load_policies, merge_policies, tighten_policy
from assayd.tomlfile import FileError

Load = Callable[..., PolicySet]
DROPS = SqlPolicy(rules=(("sql.drop", RuleLevel.WARNING), ("sql.trigger", RuleLevel.ERROR)))


def test_child_changes_the_rules_that_it_names(load: Load) -> None:
    parent = '[sql.rules]\n"sql.drop" = "off"\n"sql.alter" = "warning"\n'
    child = 'extends = "a"\n[sql.rules]\n"sql.drop" = "error"\n'
    assert load(a=parent, b=child).get("b").sql.rules == (
        ("sql.alter", RuleLevel.WARNING),
        ("sql.drop", RuleLevel.ERROR),
    )


@pytest.mark.parametrize("rule", ["sql.attach", "sql.function", "sql.syntax", "command.blocked"])
def test_rule_that_no_profile_may_set_is_refused(load: Load, rule: str) -> None:
    with pytest.raises(FileError, match="profiles can't set the rule"):
        load(a=f'[sql.rules]\n"{rule}" = "off"\n')


def test_union_takes_the_milder_level() -> None:
    one = ExecutionPolicy(name="one", sql=DROPS)
    two = ExecutionPolicy(name="two", sql=SqlPolicy(rules=(("sql.drop", RuleLevel.OFF),)))
    assert merge_policies(one, two).sql.rules == (
        ("sql.drop", RuleLevel.OFF),
        ("sql.trigger", RuleLevel.ERROR),
    )


def test_request_may_only_make_rules_stricter() -> None:
    policy = ExecutionPolicy(name="one", sql=DROPS)
    stricter = tighten_policy(policy, {"sql": {"rules": {"sql.drop": "error"}}})
    assert stricter.sql.level("sql.drop") is RuleLevel.ERROR
    for rules in ({"sql.drop": "off"}, {"sql.alter": "off"}, {"sql.attach": "error"}, {"sql.drop": "no"}, []):
        with pytest.raises(RequestError):
            tighten_policy(policy, {"sql": {"rules": rules}})


def test_shipped_pipeline_sets_no_rule_and_analysis_shows_its_own() -> None:
    shipped = load_policies([get_shared_data_path("policies")])
    assert shipped.get("pipeline").sql.rules == ()
    shown = describe_policy(shipped.get("analysis"))["sql"]
    assert isinstance(shown, dict)
    assert shown["rules"]["sql.drop"] == "warning"  # type: ignore[index, call-overload]
