"""Resolves profiles: first merges the inherited values, and then applies the profile's own values.

The profiles that a profile extends are merged: the union allows everything that any of them allows, but names
that one of them forbids stay forbidden, and `enforce_forbidden` stays enabled. Then the profile's own values
are applied: a limit or a mode replaces the inherited value, and a list adds to the inherited list. Therefore,
a profile is tighter than its parents only if its own values are tighter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from assayd import did_you_mean
from assayd.model.hosts import entry_covers
from assayd.model.policy import (
    AdapterContract,
    CommandPolicy,
    Enforcement,
    ExecutionPolicy,
    HttpRule,
    IgnoredErrorSeverity,
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
from assayd.policies.canonical import MEGABYTE, add_digest
from assayd.policies.files import (
    AdapterTable,
    BoundsTable,
    CommandsTable,
    HttpTable,
    ImportsTable,
    NetworkTable,
    Profile,
    QualityTable,
    ResourcesTable,
    SqlTable,
)
from assayd.tomlfile import Problem

ModulesByCategory = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDraft:
    """A profile with all inherited values, before they are clamped, and with its requested bounds."""

    policy: ExecutionPolicy
    bounds: LimitRanges


class ProfileResolver:
    """A resolver of the profiles' inheritance, which collects all problems in `problems`."""

    def __init__(
        self, profiles: Mapping[str, Profile], categories: ModulesByCategory, bounds: LimitRanges
    ) -> None:
        self.problems: list[Problem] = []
        self._profiles = profiles
        self._categories = categories
        self._bounds = bounds
        self._drafts: dict[str, ProfileDraft | None] = {}

    def resolve_draft(self, name: str, trail: tuple[str, ...] = ()) -> ProfileDraft | None:
        """Return the resolved profile, or None if the profile or one of its parents has a problem."""
        if name not in self._drafts:
            profile = self._profiles[name]
            parents = self._resolve_parents(profile, (*trail, name))
            own = [*self._find_unknown_categories(profile), *_find_contradictions(profile, parents or [])]
            self.problems += own
            self._drafts[name] = None if parents is None or own else self._apply_profile(profile, parents)
        return self._drafts[name]

    def _resolve_parents(self, profile: Profile, trail: tuple[str, ...]) -> list[ProfileDraft] | None:
        drafts: list[ProfileDraft] = []
        usable = True
        for parent in profile.parents:
            message = self._find_parent_problem(parent, trail)
            if message is not None:
                self.problems.append(profile.file.problem(("extends",), message))
                usable = False
            elif (draft := self.resolve_draft(parent, trail)) is not None:
                drafts.append(draft)
            else:
                usable = False
        return drafts if usable else None

    def _find_parent_problem(self, parent: str, trail: tuple[str, ...]) -> str | None:
        if parent in trail:
            return "profiles extend each other in a cycle: " + " > ".join((*trail, parent))
        if parent not in self._profiles:
            hint = did_you_mean.format_did_you_mean_hint(parent, list(self._profiles))
            return f"unknown profile {parent!r}{hint}"
        return None

    def _find_unknown_categories(self, profile: Profile) -> Iterator[Problem]:
        for category in profile.table.imports.categories or ():
            if category not in self._categories:
                hint = did_you_mean.format_did_you_mean_hint(category, list(self._categories))
                message = f"unknown import category {category!r}{hint}"
                yield profile.file.problem(("imports", "categories"), message)

    def _apply_profile(self, profile: Profile, parents: Sequence[ProfileDraft]) -> ProfileDraft:
        table = profile.table
        base = _merge_drafts(parents) if parents else self._build_base_draft()
        policy = replace(
            base.policy,
            name=profile.name,
            description=table.description or base.policy.description,
            enforcement=Enforcement(table.enforcement) if table.enforcement else base.policy.enforcement,
            approve_reported=_inherit_flag(table.approve_reported, base.policy.approve_reported),
            image=table.image or base.policy.image,
            exec=_inherit_flag(table.exec, base.policy.exec),
            network=_apply_network(table.network, base.policy.network if parents else None),
            imports=_apply_imports(table.imports, base.policy.imports if parents else None, self._categories),
            adapter=_apply_adapter(table.adapter, base.policy.adapter),
            commands=merge_commands(base.policy.commands, _build_commands(table.commands)),
            sql=_apply_sql(table.sql, base.policy.sql),
            quality=_apply_quality(table.quality, base.policy.quality),
            resources=_apply_resources(table.resources, base.policy.resources),
        )
        return ProfileDraft(policy=policy, bounds=_apply_bounds(table.bounds, base.bounds))

    def _build_base_draft(self) -> ProfileDraft:
        return ProfileDraft(policy=ExecutionPolicy(name=""), bounds=self._bounds)


def _merge_drafts(parents: Sequence[ProfileDraft]) -> ProfileDraft:
    return ProfileDraft(
        policy=reduce(merge_policies, (parent.policy for parent in parents)),
        bounds=reduce(merge_bounds, (parent.bounds for parent in parents)),
    )


def _find_contradictions(profile: Profile, parents: Sequence[ProfileDraft]) -> Iterator[Problem]:
    if profile.table.imports.enforce_forbidden is False:
        for parent in parents:
            if parent.policy.imports.enforce_forbidden:
                message = f"can't be switched off: the extended profile {parent.policy.name!r} has it on"
                yield profile.file.problem(("imports", "enforce_forbidden"), message)
    yield from _find_ineffective_modules(profile, parents)
    images = sorted({parent.policy.image for parent in parents if parent.policy.image is not None})
    if len(images) > 1 and profile.table.image is None:
        message = f"the extended profiles name different images, {' and '.join(images)}: set image"
        yield profile.file.problem(("extends",), message)
    for limit, pair in profile.table.bounds:
        if pair is not None and pair[0] > pair[1]:
            yield profile.file.problem(("bounds", limit), "the minimum exceeds the maximum")
    yield from _find_unused_http_rules(profile)


def _find_ineffective_modules(profile: Profile, parents: Sequence[ProfileDraft]) -> Iterator[Problem]:
    """Yield problems for modules in `only` without effect, because no extended profile allows them."""
    for module in profile.table.imports.only or ():
        if not any(parent.policy.imports.allows(module) for parent in parents):
            what = "no profile that this one extends allows it" if parents else "this profile extends none"
            message = f"can't narrow to {module!r}: {what}; to allow more, list it under allowed"
            yield profile.file.problem(("imports", "only"), message)


def _find_unused_http_rules(profile: Profile) -> Iterator[Problem]:
    """Yield problems for HTTP rules without effect, because the file also lists the host without rules."""
    table = profile.table.network
    for host in table.http:
        free = [entry for entry in table.hosts or () if entry_covers(entry, host)]
        if free:
            message = f"has no effect: hosts lists {free[0]!r} without rules"
            yield profile.file.problem(("network", "http", host), message)


def _apply_network(table: NetworkTable, base: NetworkPolicy | None) -> NetworkPolicy:
    inherited = base or NetworkPolicy()
    ports, listed = frozenset(table.ports or ()), frozenset(table.hosts or ())
    freed = {host: rule for host, rule in inherited.http.items() if host not in listed}
    return NetworkPolicy(
        mode=NetworkMode(table.mode) if table.mode is not None else inherited.mode,
        hosts=inherited.hosts | listed | frozenset(table.http),
        ports=ports | base.ports if base else ports or inherited.ports,
        connect_timeout_s=_inherit_number(table.connect_timeout_s, inherited.connect_timeout_s),
        http={**freed, **{host: _build_http_rule(rule) for host, rule in table.http.items()}},
    )


def _build_http_rule(table: HttpTable) -> HttpRule:
    return HttpRule(methods=frozenset(table.methods or ()), paths=frozenset(table.paths or ()))


def _apply_imports(
    table: ImportsTable, base: ImportPolicy | None, categories: ModulesByCategory
) -> ImportPolicy:
    inherited = base or ImportPolicy()
    if table.only is not None:
        inherited = _narrow_imports(inherited, frozenset(table.only))
    listed = frozenset(table.allowed or ()) | table.names.keys()
    by_category = frozenset().union(*(categories[name] for name in table.categories or ()))
    own_names = {m: inherited.names.get(m, frozenset()) | frozenset(n) for m, n in table.names.items()}
    forbid = table.enforce_forbidden
    return ImportPolicy(
        mode=ImportMode(table.mode) if table.mode is not None else inherited.mode,
        categories=tuple(dict.fromkeys((*inherited.categories, *(table.categories or ())))),
        allowed=inherited.allowed | by_category | listed,
        denied=inherited.denied | frozenset(table.denied or ()),
        submodules=SubmoduleRule(table.submodules) if table.submodules is not None else inherited.submodules,
        names={**inherited.names, **own_names},
        enforce_forbidden=inherited.enforce_forbidden if forbid is None else forbid,
    )


def _narrow_imports(inherited: ImportPolicy, only: frozenset[str]) -> ImportPolicy:
    """Return an inherited import policy, restricted to the given modules."""
    kept = replace(inherited, categories=(), allowed=only)
    names = {module: names for module, names in inherited.names.items() if kept.allows(module)}
    return replace(kept, names=names)


def _apply_adapter(table: AdapterTable, base: AdapterContract) -> AdapterContract:
    """Return the merged contract: a list replaces the inherited one, but forbidden names accumulate."""
    return AdapterContract(
        decorators=_inherit_list(table.decorators, base.decorators),
        methods=_inherit_list(table.methods, base.methods),
        base_classes=_inherit_list(table.base_classes, base.base_classes),
        modules=_inherit_list(table.modules, base.modules),
        forbidden=base.forbidden | frozenset(table.forbidden or ()),
    )


def _apply_sql(table: SqlTable, base: SqlPolicy) -> SqlPolicy:
    stated = {name: RuleLevel(level) for name, level in table.rules.items()}
    rules = tuple(sorted({**dict(base.rules), **stated}.items()))
    return replace(base, rules=rules, **table.model_dump(exclude_none=True, exclude={"rules"}))


def _apply_quality(table: QualityTable, base: QualityPolicy) -> QualityPolicy:
    stated = {name: RuleLevel(level) for name, level in table.rules.items()}
    plain = table.model_dump(exclude_none=True, exclude={"rules", "severity"})
    severity = base.severity if table.severity is None else RuleLevel(table.severity)
    return replace(
        base, severity=severity, rules=tuple(sorted({**dict(base.rules), **stated}.items())), **plain
    )


def _build_commands(table: CommandsTable) -> CommandPolicy:
    return CommandPolicy(
        allowed=frozenset(table.allowed or ()),
        blocked=frozenset(table.blocked or ()),
        builtins=frozenset(table.builtins or ()),
        options={name: frozenset(options) for name, options in table.options.items()},
        protected=frozenset(table.protected or ()),
        ignored_errors=IgnoredErrorSeverity(table.ignored_errors)
        if table.ignored_errors is not None
        else None,
    )


def _apply_resources(table: ResourcesTable, base: ResourcePolicy) -> ResourcePolicy:
    memory_mb = table.memory_mb
    return ResourcePolicy(
        timeout_s=_inherit_number(table.timeout_s, base.timeout_s),
        unit_timeout_s=_inherit_number(table.unit_timeout_s, base.unit_timeout_s),
        memory_bytes=base.memory_bytes if memory_mb is None else memory_mb * MEGABYTE,
        max_processes=base.max_processes if table.max_processes is None else table.max_processes,
    )


def _apply_bounds(table: BoundsTable, base: LimitRanges) -> LimitRanges:
    stated = {limit: LimitRange(least=pair[0], most=pair[1]) for limit, pair in table if pair is not None}
    return replace(base, **stated)


def _inherit_list(stated: list[str] | None, inherited: tuple[str, ...]) -> tuple[str, ...]:
    return inherited if stated is None else tuple(dict.fromkeys(stated))


def _inherit_flag(stated: bool | None, inherited: bool) -> bool:
    return inherited if stated is None else stated


def _inherit_number(value: float | None, inherited: float) -> float:
    return inherited if value is None else value


_ORDERED_LEVELS = tuple(RuleLevel)
_Levels = tuple[tuple[str, RuleLevel], ...]
Names = Mapping[str, frozenset[str]]


def merge_policies(first: ExecutionPolicy, second: ExecutionPolicy) -> ExecutionPolicy:
    """Return the union of two policies, with the more permissive value of each key.

    Args:
        first: a policy, whose description is kept.
        second: another policy, whose `commands.ignored_errors` takes precedence.
    """
    united = replace(
        first,
        name=f"{first.name}+{second.name}",
        enforcement=first.enforcement if first.is_report_only else second.enforcement,
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
        merge_commands(a, b), ignored_errors=min(levels, key=tuple(IgnoredErrorSeverity).index, default=None)
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
        severity=min(a.severity, b.severity, key=_ORDERED_LEVELS.index),
        rules=_merge_levels(a.rules, b.rules),
        generalization=a.generalization or b.generalization,
        mutants=max(a.mutants, b.mutants),
    )


def _merge_levels(a: _Levels, b: _Levels) -> _Levels:
    """Return each rule's level: the milder level if both policies set one, otherwise the only level."""
    found = dict(a)
    for name, level in b:
        found[name] = min(found.get(name, level), level, key=_ORDERED_LEVELS.index)
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
