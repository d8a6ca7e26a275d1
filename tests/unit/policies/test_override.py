from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from assayd.errors import RequestError
from assayd.model.policy import (
    ExecutionPolicy,
    HttpRule,
    ImportMode,
    ImportPolicy,
    NetworkMode,
    NetworkPolicy,
    ResourcePolicy,
)
from assayd.policies import require_enforceable, tighten_policy

BASE = ExecutionPolicy(
    name="base",
    digest="before",
    network=NetworkPolicy(mode=NetworkMode.ALLOWLIST, hosts=frozenset({"a.org", "b.org"})),
    imports=ImportPolicy(mode=ImportMode.OBSERVE, allowed=frozenset({"json", "os"}), enforce_forbidden=False),
    resources=ResourcePolicy(timeout_s=60, unit_timeout_s=30, memory_bytes=256 * 2**20, max_processes=4),
)


def test_no_overrides_give_the_same_policy() -> None:
    assert tighten_policy(BASE, {}) is BASE


def test_tighter_limits_are_taken_and_change_the_digest() -> None:
    tightened = tighten_policy(
        BASE, {"resources": {"unit_timeout_s": 0.5, "memory_mb": 128, "max_processes": 1}}
    )
    assert tightened.resources == ResourcePolicy(
        timeout_s=60, unit_timeout_s=0.5, memory_bytes=128 * 2**20, max_processes=1
    )
    assert tightened.digest != BASE.digest


def test_tighter_attempt_deadline_holds_for_units_too() -> None:
    assert tighten_policy(BASE, {"resources": {"timeout_s": 5}}).resources.unit_timeout_s == 5


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"resources": {"timeout_s": 61}}, "overrides.resources.timeout_s"),
        ({"resources": {"unit_timeout_s": 30.5}}, "overrides.resources.unit_timeout_s"),
        ({"resources": {"memory_mb": 257}}, "overrides.resources.memory_mb"),
        ({"resources": {"max_processes": 5}}, "overrides.resources.max_processes"),
        ({"sql": {"max_rows": 1001}}, "overrides.sql.max_rows"),
        ({"network": {"hosts": ["a.org", "c.org"]}}, "overrides.network.hosts"),
        ({"network": {"ports": [80]}}, "overrides.network.ports"),
        ({"network": {"connect_timeout_s": 6}}, "overrides.network.connect_timeout_s"),
        ({"imports": {"allowed": ["json", "socket"]}}, "overrides.imports.allowed"),
    ],
)
def test_anything_wider_is_refused_with_its_field(overrides: Mapping[str, object], field: str) -> None:
    with pytest.raises(RequestError) as caught:
        tighten_policy(BASE, overrides)
    assert (caught.value.code, caught.value.field) == ("override.wider", field)


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"network": {"mode": "allowlist"}}, "overrides.network.mode"),
        ({"imports": {"mode": "observe"}}, "overrides.imports.mode"),
        ({"imports": {"enforce_forbidden": False}}, "overrides.imports.enforce_forbidden"),
    ],
)
def test_mode_that_is_wider_than_a_strict_policy_is_refused(
    overrides: Mapping[str, object], field: str
) -> None:
    with pytest.raises(RequestError) as caught:
        tighten_policy(ExecutionPolicy(name="strict"), overrides)
    assert (caught.value.code, caught.value.field) == ("override.wider", field)


@pytest.mark.parametrize("value", [True, math.nan, math.inf, 0, -1, "5", None, [5]])
def test_deadline_that_is_not_a_positive_number_is_refused(value: object) -> None:
    with pytest.raises(RequestError) as caught:
        tighten_policy(BASE, {"resources": {"timeout_s": value}})
    assert (caught.value.code, caught.value.field) == ("override.type", "overrides.resources.timeout_s")


@pytest.mark.parametrize("value", [True, 2.0, 0, "2"])
def test_process_limit_that_is_not_a_positive_whole_number_is_refused(value: object) -> None:
    with pytest.raises(RequestError) as caught:
        tighten_policy(BASE, {"resources": {"max_processes": value}})
    assert caught.value.code == "override.type"


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"resource": {}}, "overrides.resource"),
        ({"resources": {"timout_s": 1}}, "overrides.resources.timout_s"),
        ({"network": {"host": []}}, "overrides.network.host"),
        ({"imports": {"names": {}}}, "overrides.imports.names"),
    ],
)
def test_unknown_key_is_refused_by_name(overrides: Mapping[str, object], field: str) -> None:
    with pytest.raises(RequestError) as caught:
        tighten_policy(BASE, overrides)
    assert (caught.value.code, caught.value.field) == ("override.unknown", field)


@pytest.mark.parametrize(
    "overrides",
    [
        {"resources": 5},
        {"network": {"hosts": "a.org"}},
        {"network": {"hosts": [1]}},
        {"imports": {"mode": ["x"]}},
    ],
)
def test_value_of_the_wrong_shape_is_refused(overrides: Mapping[str, object]) -> None:
    with pytest.raises(RequestError) as caught:
        tighten_policy(BASE, overrides)
    assert caught.value.code == "override.type"


def test_blocking_the_network_makes_an_allowlist_profile_enforceable() -> None:
    with pytest.raises(RequestError):
        require_enforceable(BASE, egress=False)
    require_enforceable(tighten_policy(BASE, {"network": {"mode": "blocked"}}), egress=False)


def test_denied_names_add_up_and_are_enforced() -> None:
    tightened = tighten_policy(BASE, {"imports": {"denied": ["os"], "mode": "enforce"}})
    assert not tightened.imports.allows("os")
    assert tightened.imports.allows("json")
    assert tightened.imports.mode is ImportMode.ENFORCE


def test_allowed_modules_can_be_cut_down() -> None:
    assert tighten_policy(BASE, {"imports": {"allowed": ["os.path"]}}).imports.allowed == {"os.path"}


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("denied", ["a" * 101]),
        ("denied", [f"m{n}" for n in range(201)]),
        ("denied", ["os\n"]),
        ("allowed", ["json." + "a" * 70_000]),
    ],
)
def test_more_than_a_frame_can_carry_is_refused(field: str, names: list[str]) -> None:
    with pytest.raises(RequestError) as caught:
        tighten_policy(BASE, {"imports": {field: names}})
    assert (caught.value.code, caught.value.field) == ("override.type", f"overrides.imports.{field}")


WIDE = replace(
    BASE,
    network=NetworkPolicy(
        mode=NetworkMode.ALLOWLIST,
        hosts=frozenset({".example.org", "a.example.org", "b.org"}),
        http={"b.org": HttpRule(methods=frozenset({"GET", "PUT"}), paths=frozenset({"/v1/"}))},
    ),
)


def test_hosts_can_be_narrowed_to_names_below_an_entry() -> None:
    asked = ["X.example.org", ".deep.example.org", "b.org"]
    network = tighten_policy(WIDE, {"network": {"hosts": asked}}).network

    assert network.hosts == {"x.example.org", ".deep.example.org", "b.org"}
    assert network.http == WIDE.network.http


def test_methods_and_paths_can_be_narrowed() -> None:
    rules = {"b.org": {"methods": ["GET"], "paths": ["/v1/x"]}, "a.example.org": {"methods": ["HEAD"]}}
    network = tighten_policy(WIDE, {"network": {"http": rules}}).network

    assert network.http == {
        "b.org": HttpRule(methods=frozenset({"GET"}), paths=frozenset({"/v1/x"})),
        "a.example.org": HttpRule(methods=frozenset({"HEAD"})),
    }


def test_name_below_an_entry_keeps_the_entrys_rule() -> None:
    rule = HttpRule(methods=frozenset({"GET"}))
    policy = replace(WIDE, network=replace(WIDE.network, hosts=frozenset({".c.org"}), http={".c.org": rule}))

    assert tighten_policy(policy, {"network": {"hosts": ["a.c.org"]}}).network.http == {"a.c.org": rule}


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"hosts": ["example.org"]}, "hosts"),
        ({"hosts": [".org"]}, "hosts"),
        ({"http": {"b.org": {"methods": ["POST"]}}}, "http.b.org.methods"),
        ({"http": {"b.org": {"paths": ["/"]}}}, "http.b.org.paths"),
        ({"http": {"b.org": {"paths": ["/v1/../"]}}}, "http.b.org.paths"),
        ({"http": {"c.org": {}}}, "http.c.org"),
        ({"hosts": ["b.org"], "http": {"a.example.org": {}}}, "http.a.example.org"),
    ],
)
def test_hosts_methods_and_paths_cannot_be_widened(asked: Mapping[str, object], field: str) -> None:
    with pytest.raises(RequestError) as caught:
        tighten_policy(WIDE, {"network": asked})
    assert (caught.value.code, caught.value.field) == ("override.wider", f"overrides.network.{field}")


@pytest.mark.parametrize(
    "asked",
    [
        {"hosts": ["10.0.0.1"]},
        {"http": []},
        {"http": {"b.org": {"methods": []}}},
        {"http": {"b.org": {"paths": [1]}}},
        {"http": {"b.org": {"paths": ["/v1/" + "x" * 300]}}},
    ],
)
def test_rules_of_the_wrong_shape_are_refused(asked: Mapping[str, object]) -> None:
    with pytest.raises(RequestError) as caught:
        tighten_policy(WIDE, {"network": asked})
    assert caught.value.code == "override.type"


def test_sql_of_a_step_can_be_bounded_more_tightly() -> None:
    tightened = tighten_policy(BASE, {"sql": {"max_rows": 5, "max_statements": 2}})

    assert (tightened.sql.max_rows, tightened.sql.max_statements) == (5, 2)
    assert tightened.sql.max_bytes == BASE.sql.max_bytes
    assert tightened.digest != BASE.digest


@pytest.mark.parametrize("rules", [["sql.no_where"], {"no.such_rule": "off"}, {"sql.no_where": "loud"}])
def test_levels_of_sql_rules_that_do_not_exist_are_refused(rules: object) -> None:
    with pytest.raises(RequestError) as caught:
        tighten_policy(BASE, {"sql": {"rules": rules}})
    assert (caught.value.code, caught.value.field) == ("override.type", "overrides.sql.rules")
