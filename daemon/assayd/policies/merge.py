"""Computes the union of two policies, which allows everything that either of them allows.

There are two exceptions: names that either policy forbids stay forbidden, and `enforce_forbidden` stays
enabled if either policy enables it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assayd.model.policy import (
    AdapterContract,
    CommandPolicy,
    ExecutionPolicy,
    HttpRule,
    IgnoredErrors,
    ImportMode,
    ImportPolicy,
    LimitRange,
    LimitRanges,
    NetworkMode,
    NetworkPolicy,
    QualityPolicy,
    ResourcePolicy,
    RuleLevel,
    SqlPolicy,
    SubmoduleRule,
)
from assayd.policies.canonical import add_digest

_MILD = tuple(RuleLevel)
_Levels = tuple[tuple[str, RuleLevel], ...]
Names = Mapping[str, frozenset[str]]


def merge_policies(first: ExecutionPolicy, second: ExecutionPolicy) -> ExecutionPolicy:
    """Return the union of two policies, with the more permissive value of each key.

    Args:
        first: a policy.
        second: another policy; the order doesn't matter.
    """
    united = replace(
        first,
        name=f"{first.name}+{second.name}",
        enforcement=first.enforcement if first.reports_only else second.enforcement,
        approve_reported=first.approve_reported or second.approve_reported,
        image=_merge_images(first.image, second.image),
        exec=first.exec or second.exec,
        network=_merge_network(first.network, second.network),
        imports=_merge_imports(first.imports, second.imports),
        adapter=_merge_adapter_contracts(first.adapter, second.adapter),
        commands=_merge_parents_commands(first.commands, second.commands),
        sql=_merge_sql(first.sql, second.sql),
        quality=_merge_quality(first.quality, second.quality),
        resources=_merge_resources(first.resources, second.resources),
        clamped=tuple(dict.fromkeys(first.clamped + second.clamped)),
    )
    return add_digest(united)


def _merge_images(a: str | None, b: str | None) -> str | None:
    """Return the image that either policy sets (the alphabetically first if both do), or None.

    Two different images can't occur, because no profile can inherit two images.
    """
    return min((name for name in (a, b) if name is not None), default=None)


def merge_bounds(first: LimitRanges, second: LimitRanges) -> LimitRanges:
    """Return the narrowest bounds that include both of the given bounds."""
    return LimitRanges(
        timeout_s=_merge_ranges(first.timeout_s, second.timeout_s),
        unit_timeout_s=_merge_ranges(first.unit_timeout_s, second.unit_timeout_s),
        memory_mb=_merge_ranges(first.memory_mb, second.memory_mb),
        max_processes=_merge_ranges(first.max_processes, second.max_processes),
    )


def merge_commands(a: CommandPolicy, b: CommandPolicy) -> CommandPolicy:
    """Return the union of the allowed commands. Everything that either policy rejects stays rejected.

    The second policy's `ignored_errors` replaces the first one's, unless it is None.
    """
    none: frozenset[str] = frozenset()
    return CommandPolicy(
        allowed=a.allowed | b.allowed,
        blocked=a.blocked | b.blocked,
        builtins=a.builtins | b.builtins,
        options={
            name: a.options.get(name, none) | b.options.get(name, none)
            for name in a.options.keys() | b.options.keys()
        },
        protected=a.protected | b.protected,
        ignored_errors=a.ignored_errors if b.ignored_errors is None else b.ignored_errors,
    )


def _merge_parents_commands(a: CommandPolicy, b: CommandPolicy) -> CommandPolicy:
    """Return the merged commands of two parents: of two values of `ignored_errors`, the milder one counts."""
    levels = [each.ignored_errors for each in (a, b) if each.ignored_errors is not None]
    return replace(
        merge_commands(a, b), ignored_errors=min(levels, key=tuple(IgnoredErrors).index, default=None)
    )


def _merge_sql(a: SqlPolicy, b: SqlPolicy) -> SqlPolicy:
    return SqlPolicy(
        max_bytes=max(a.max_bytes, b.max_bytes),
        max_statements=max(a.max_statements, b.max_statements),
        max_rows=max(a.max_rows, b.max_rows),
        max_cell_chars=max(a.max_cell_chars, b.max_cell_chars),
        rules=_merge_levels(a.rules, b.rules),
    )


def _merge_quality(a: QualityPolicy, b: QualityPolicy) -> QualityPolicy:
    return QualityPolicy(
        severity=min(a.severity, b.severity, key=_MILD.index),
        rules=_merge_levels(a.rules, b.rules),
        generalization=a.generalization or b.generalization,
        mutants=max(a.mutants, b.mutants),
    )


def _merge_levels(a: _Levels, b: _Levels) -> _Levels:
    """Return each rule's level: the milder level if both policies set one, otherwise the only level."""
    found = dict(a)
    for name, level in b:
        found[name] = min(found.get(name, level), level, key=_MILD.index)
    return tuple(sorted(found.items()))


def _merge_network(a: NetworkPolicy, b: NetworkPolicy) -> NetworkPolicy:
    return NetworkPolicy(
        mode=NetworkMode.ALLOWLIST if NetworkMode.ALLOWLIST in {a.mode, b.mode} else NetworkMode.BLOCKED,
        hosts=a.hosts | b.hosts,
        ports=a.ports | b.ports,
        connect_timeout_s=max(a.connect_timeout_s, b.connect_timeout_s),
        http=_merge_http_rules(a, b),
    )


def _merge_http_rules(a: NetworkPolicy, b: NetworkPolicy) -> Mapping[str, HttpRule]:
    """Return the union of HTTP rules. If either policy lists a host without rules, it is unrestricted."""
    united: dict[str, HttpRule] = {}
    for host in a.http.keys() | b.http.keys():
        rules = [policy.http.get(host) for policy in (a, b) if host in policy.hosts]
        known = [rule for rule in rules if rule is not None]
        if len(known) == len(rules):
            methods, paths = [rule.methods for rule in known], [rule.paths for rule in known]
            united[host] = HttpRule(methods=_unite_sets(methods), paths=_unite_sets(paths))
    return united


def _unite_sets(sets: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the union of sets in which an empty set means everything."""
    return frozenset().union(*sets) if all(sets) else frozenset()


def _merge_imports(a: ImportPolicy, b: ImportPolicy) -> ImportPolicy:
    inherit = SubmoduleRule.INHERIT in {a.submodules, b.submodules}
    return ImportPolicy(
        mode=ImportMode.OBSERVE if ImportMode.OBSERVE in {a.mode, b.mode} else ImportMode.ENFORCE,
        categories=tuple(dict.fromkeys(a.categories + b.categories)),
        allowed=a.allowed | b.allowed,
        denied=a.denied | b.denied,
        submodules=SubmoduleRule.INHERIT if inherit else SubmoduleRule.EXACT,
        names=_merge_attribute_lists(a, b),
        enforce_forbidden=a.enforce_forbidden or b.enforce_forbidden,
    )


def _merge_adapter_contracts(a: AdapterContract, b: AdapterContract) -> AdapterContract:
    """Return the union of two contracts.

    The result accepts the decorators and names of both contracts, and requires the methods of both.
    """
    return AdapterContract(
        decorators=_merge_lists(a.decorators, b.decorators),
        methods=_merge_lists(a.methods, b.methods),
        base_classes=_merge_lists(a.base_classes, b.base_classes),
        modules=_merge_lists(a.modules, b.modules),
        forbidden=a.forbidden | b.forbidden,
    )


def _merge_lists(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    return a if a == b else tuple(sorted({*a, *b}))


def _merge_attribute_lists(a: ImportPolicy, b: ImportPolicy) -> Names:
    """Return the union of attribute lists. A module allowed without a list by either is unrestricted."""
    united: dict[str, frozenset[str]] = {}
    for module in a.names.keys() | b.names.keys():
        lists = [policy.names.get(module) for policy in (a, b) if _covers_module(policy, module)]
        known = [attributes for attributes in lists if attributes is not None]
        if len(known) == len(lists):
            united[module] = frozenset().union(*known)
    return united


def _covers_module(policy: ImportPolicy, module: str) -> bool:
    return module in policy.names or policy.allows(module)


def _merge_resources(a: ResourcePolicy, b: ResourcePolicy) -> ResourcePolicy:
    return ResourcePolicy(
        timeout_s=max(a.timeout_s, b.timeout_s),
        unit_timeout_s=max(a.unit_timeout_s, b.unit_timeout_s),
        memory_bytes=max(a.memory_bytes, b.memory_bytes),
        max_processes=max(a.max_processes, b.max_processes),
    )


def _merge_ranges(a: LimitRange, b: LimitRange) -> LimitRange:
    return LimitRange(least=min(a.least, b.least), most=max(a.most, b.most))
