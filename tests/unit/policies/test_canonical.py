from __future__ import annotations

from collections.abc import Callable

import pytest

from assayd.model.policy import ExecutionPolicy
from assayd.package_data import get_shared_data_path
from assayd.policies import PolicySet, describe_policy, load_policies
from assayd.policies.canonical import flatten_values

Load = Callable[..., PolicySet]
BASE = """\
description = "x"
[resources]
timeout_s = 10
unit_timeout_s = 5
[imports]
allowed = ["json"]
[commands.options]
find = ["-delete"]
"""


def stated(policies: PolicySet, name: str, field: str) -> list[tuple[str, int | None]]:
    return [(each.profile, each.line) for each in policies.get_value_origins(name).get(field, ())]


def test_limit_is_stated_by_the_nearest_profile_that_has_it(load: Load) -> None:
    policies = load(base=BASE, mine='extends = "base"\n[resources]\ntimeout_s = 9\n')
    assert stated(policies, "mine", "resources.timeout_s") == [("mine", 3)]
    assert stated(policies, "mine", "resources.unit_timeout_s") == [("base", 4)]
    assert stated(policies, "mine", "resources.memory_mb") == []


@pytest.mark.parametrize(
    ("own", "line"),
    [
        ('[imports]\nallowed = ["os"]\n', 3),
        ('[imports]\ncategories = ["testing"]\n', 3),
        ('[imports.names]\nos = ["sep"]\n', 3),
    ],
)
def test_list_is_stated_by_everybody_who_adds_to_it(load: Load, own: str, line: int) -> None:
    policies = load(base=BASE, mine=f'extends = "base"\n{own}')
    assert stated(policies, "mine", "imports.allowed") == [("mine", line), ("base", 6)]


def test_list_that_is_narrowed_is_stated_where_it_is_narrowed(load: Load) -> None:
    policies = load(base=BASE, mine='extends = "base"\n[imports]\nonly = ["json"]\n')
    assert stated(policies, "mine", "imports.allowed") == [("mine", 3)]
    assert "imports.only" not in policies.get_value_origins("mine")


def test_of_two_parents_the_one_whose_limit_holds_states_it(load: Load) -> None:
    other = "[resources]\ntimeout_s = 30\n"
    policies = load(base=BASE, other=other, mine='extends = ["base", "other"]\n')
    assert stated(policies, "mine", "resources.timeout_s") == [("other", 2)]
    assert stated(policies, "mine", "commands.options.find") == [("base", 8)]


def test_every_value_that_differs_from_what_is_built_in_has_an_origin() -> None:
    shipped = load_policies([get_shared_data_path("policies")])
    built_in = flatten_values(ExecutionPolicy(name=""))
    missing = {
        (name, field)
        for name in shipped.names
        for field, value in flatten_values(shipped.get(name)).items()
        if value != built_in.get(field) and not shipped.get_value_origins(name).get(field)
    }
    assert missing == set()
    place = describe_policy(shipped.get("data"), origins=shipped.get_value_origins("data"))["origins"][
        "image"
    ][0]  # type: ignore[index, call-overload]
    assert (place["profile"], place["file"].endswith("/data.toml")) == ("data", True)
