from __future__ import annotations

from collections.abc import Callable

import pytest

from assayd.model.policy import (
    AdapterContract,
    CommandPolicy,
    ExecutionPolicy,
    HttpRule,
    IgnoredErrorSeverity,
    ImportMode,
    ImportPolicy,
    NetworkMode,
    NetworkPolicy,
    QualityPolicy,
    ResourcePolicy,
    RuleLevel,
    SqlPolicy,
    SubmoduleRule,
)
from assayd.policies import PolicySet, merge_policies
from assayd.tomlfile import FileError

Load = Callable[..., PolicySet]


def policy(**parts: object) -> ExecutionPolicy:
    return ExecutionPolicy(name="p", **parts)  # type: ignore[arg-type]


def imports(**values: object) -> ExecutionPolicy:
    return policy(imports=ImportPolicy(**values))  # type: ignore[arg-type]


def test_merge_takes_the_larger_limits_and_the_union_of_sets() -> None:
    small = policy(
        resources=ResourcePolicy(timeout_s=10, unit_timeout_s=9, memory_bytes=1, max_processes=8),
        network=NetworkPolicy(hosts=frozenset({"a.org"}), ports=frozenset({80})),
    )
    large = policy(
        resources=ResourcePolicy(timeout_s=20, unit_timeout_s=3, memory_bytes=2, max_processes=1),
        network=NetworkPolicy(mode=NetworkMode.ALLOWLIST, hosts=frozenset({"b.org"}), connect_timeout_s=9),
    )
    united = merge_policies(small, large)
    assert united.resources == ResourcePolicy(timeout_s=20, unit_timeout_s=9, memory_bytes=2, max_processes=8)
    assert united.network == NetworkPolicy(
        mode=NetworkMode.ALLOWLIST,
        hosts=frozenset({"a.org", "b.org"}),
        ports=frozenset({80, 443}),
        connect_timeout_s=9,
    )


def test_merge_gives_the_same_digest_in_either_order() -> None:
    one, two = imports(allowed=frozenset({"json"})), imports(mode=ImportMode.OBSERVE)
    assert merge_policies(one, two).digest == merge_policies(two, one).digest
    assert merge_policies(one, two).imports.mode is ImportMode.OBSERVE


def test_merge_never_switches_enforcement_of_the_forbidden_off() -> None:
    strict = imports(denied=frozenset({"subprocess"}), enforce_forbidden=True)
    loose = imports(allowed=frozenset({"subprocess"}), enforce_forbidden=False)
    for united in (merge_policies(strict, loose), merge_policies(loose, strict)):
        assert united.imports.enforce_forbidden
        assert not united.imports.allows("subprocess")


def test_merge_of_submodule_rules_is_inherit_when_either_is() -> None:
    united = merge_policies(imports(submodules=SubmoduleRule.EXACT), imports())
    assert united.imports.submodules is SubmoduleRule.INHERIT


def test_merge_unites_attribute_lists_and_lifts_those_that_one_side_does_not_restrict() -> None:
    one = imports(
        allowed=frozenset({"json", "os", "re"}),
        names={"json": frozenset({"loads"}), "os": frozenset({"sep"}), "re": frozenset({"match"})},
    )
    two = imports(allowed=frozenset({"json", "os"}), names={"json": frozenset({"dumps"})})
    assert merge_policies(one, two).imports.names == {
        "json": frozenset({"loads", "dumps"}),
        "re": frozenset({"match"}),
    }


def test_profile_that_extends_two_has_the_union_and_then_its_own_values(load: Load) -> None:
    policies = load(
        a="[imports]\ncategories = ['testing']\n[resources]\ntimeout_s = 10\nmemory_mb = 128\n",
        b="[imports]\nallowed = ['numpy']\n[resources]\ntimeout_s = 20\nmemory_mb = 64\n",
        c="extends = ['a', 'b']\n[imports]\nallowed = ['yaml']\n[resources]\ntimeout_s = 5\n",
    )
    child = policies.get("c")
    assert child.imports.allowed == {"pytest", "numpy", "yaml"}
    assert child.resources.timeout_s == 5
    assert child.resources.memory_bytes == 128 * 2**20
    assert child.imports.categories == ("testing",)


def test_child_of_a_clamped_parent_inherits_what_was_asked_and_is_clamped_itself(load: Load) -> None:
    child = load(a="[resources]\ntimeout_s = 90\n", b="extends = 'a'\n").get("b")
    assert child.resources.timeout_s == 60
    assert [c.field for c in child.clamped] == ["resources.timeout_s"]


def test_child_inherits_wider_bounds(load: Load) -> None:
    policies = load(
        a="[bounds]\nmax_processes = [1, 64]\n", b="extends = 'a'\n[resources]\nmax_processes = 32\n"
    )
    assert policies.get("b").resources.max_processes == 32


def test_profiles_in_a_circle_are_refused_with_the_whole_circle(load: Load) -> None:
    with pytest.raises(FileError, match=r"c\.toml:2: extends: .* in a cycle: a > b > c > a") as caught:
        load(a="extends = 'b'\n", b="extends = ['c']\n", c="\nextends = 'a'\n")
    assert len(caught.value.problems) == 1


def test_profile_that_extends_itself_is_refused(load: Load) -> None:
    with pytest.raises(FileError, match="cycle: a > a"):
        load(a="extends = 'a'\n")


def test_profile_that_extends_an_unknown_one_is_refused_with_a_hint(load: Load) -> None:
    with pytest.raises(
        FileError, match=r"b\.toml:1: extends: unknown profile 'baze' \(did you mean base\?\)"
    ):
        load(base="", b="extends = 'baze'\n")


def test_switching_off_what_a_parent_enforces_is_refused_with_its_line(load: Load) -> None:
    with pytest.raises(FileError, match=r"b\.toml:3: \[imports\] enforce_forbidden: can't be switched off"):
        load(a="", b="extends = 'a'\n[imports]\nenforce_forbidden = false\n")


def test_module_with_an_attribute_list_is_allowed_by_it(load: Load) -> None:
    policy = load(a="[imports.names]\njson = ['loads']\n'os.path' = ['join']\n").get("a")
    assert policy.imports.allowed == {"json", "os.path"}
    assert policy.imports.names == {"json": frozenset({"loads"}), "os.path": frozenset({"join"})}


def test_equal_values_have_an_equal_digest_whatever_the_name(load: Load) -> None:
    policies = load(a="", b="description = 'other'\n", c="[resources]\ntimeout_s = 29\n")
    assert policies.get("a").digest == policies.get("b").digest
    assert policies.get("a").digest != policies.get("c").digest


def listed(*hosts: str, **http: HttpRule) -> ExecutionPolicy:
    rules = {name.replace("_", "."): rule for name, rule in http.items()}
    return policy(network=NetworkPolicy(hosts=frozenset({*hosts, *rules}), http=rules))


def test_merge_unites_rules_of_hosts_and_drops_those_that_one_policy_does_without() -> None:
    get, put = HttpRule(methods=frozenset({"GET"})), HttpRule(methods=frozenset({"PUT"}))
    below = HttpRule(methods=frozenset({"GET"}), paths=frozenset({"/x/"}))
    first = listed("free.org", a_org=get, b_org=below, free_org=get)
    second = listed("free.org", a_org=put, c_org=get)

    assert merge_policies(first, second).network.http == {
        "a.org": HttpRule(methods=frozenset({"GET", "PUT"})),
        "b.org": below,
        "c.org": get,
    }
    assert merge_policies(first, second).network == merge_policies(second, first).network


def test_merge_allows_as_much_sql_as_either() -> None:
    one = policy(sql=SqlPolicy(max_bytes=1, max_statements=9, max_rows=1, max_cell_chars=9))
    two = policy(sql=SqlPolicy(max_bytes=2, max_statements=3, max_rows=4, max_cell_chars=5))
    assert merge_policies(one, two).sql == SqlPolicy(
        max_bytes=2, max_statements=9, max_rows=4, max_cell_chars=9
    )


def test_merge_of_contracts_accepts_either_decorator_and_asks_for_all_methods() -> None:
    one = policy(adapter=AdapterContract(decorators=("a",), methods=("m",), forbidden=frozenset({"eval"})))
    two = policy(adapter=AdapterContract(decorators=("b",), methods=("n",), forbidden=frozenset({"exec"})))
    united = merge_policies(one, two).adapter
    assert (united.decorators, united.methods, united.forbidden) == (("a", "b"), ("m", "n"), {"eval", "exec"})
    assert merge_policies(one, two).digest == merge_policies(two, one).digest


def test_merge_takes_the_milder_level_of_quality_rules() -> None:
    strict = QualityPolicy(severity=RuleLevel.ERROR, rules=(("quality.echo", RuleLevel.ERROR),))
    mild = QualityPolicy(rules=(("quality.echo", RuleLevel.OFF),), generalization=False)
    expected = QualityPolicy(rules=(("quality.echo", RuleLevel.OFF),))
    assert merge_policies(policy(quality=strict), policy(quality=mild)).quality == expected


def test_a_profile_states_what_it_makes_of_quality(load: Load) -> None:
    found = load(
        p='[quality]\nseverity = "error"\ngeneralization = false\nrules = {"quality.echo" = "off"}\n'
    )
    quality = found.get("p").quality
    assert (quality.level("quality.echo"), quality.level("quality.constant")) == (
        RuleLevel.OFF,
        RuleLevel.ERROR,
    )
    assert not quality.generalization


def test_a_profile_says_how_many_changes_to_try_within_bounds(load: Load) -> None:
    found = load(p="[quality]\nmutants = 10\n", q="")
    assert found.get("p").quality.mutants == 10
    assert found.get("q").quality.mutants == 0
    assert merge_policies(found.get("p"), found.get("q")).quality.mutants == 10
    with pytest.raises(FileError, match="mutants: must be at most 50"):
        load(p="[quality]\nmutants = 51\n")


def test_a_profile_cannot_set_a_rule_that_is_none(load: Load) -> None:
    with pytest.raises(FileError, match=r"quality\.all_empty"):
        load(p='[quality.rules]\n"quality.all_empty" = "off"\n')


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ("error", "warning", "warning"),
        ("warning", "error", "warning"),
        ("error", None, "error"),
        (None, None, None),
    ],
)
def test_of_two_severities_for_ignored_errors_the_milder_counts_in_either_order(
    first: str | None, second: str | None, merged: str | None
) -> None:
    one, two = (
        policy(commands=CommandPolicy(ignored_errors=IgnoredErrorSeverity(level) if level else None))
        for level in (first, second)
    )
    expected = IgnoredErrorSeverity(merged) if merged else None
    assert merge_policies(one, two).commands.ignored_errors == expected
    assert merge_policies(one, two).digest == merge_policies(two, one).digest
