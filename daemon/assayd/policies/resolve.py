"""Resolves profiles: first merges the inherited values, and then applies the profile's own values.

The profiles that a profile extends are merged (`merge`). Then the profile's own values are applied: a limit
or a mode replaces the inherited value, and a list adds to the inherited list. Therefore, a profile is
tighter than its parents only if its own values are tighter.
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
from assayd.policies.canonical import MEGABYTE
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
from assayd.policies.merge import merge_bounds, merge_commands, merge_policies
from assayd.tomlfile import Problem

Categories = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDraft:
    """A profile with all inherited values, before they are clamped, and with its requested bounds."""

    policy: ExecutionPolicy
    bounds: LimitRanges


class ProfileResolver:
    """A resolver of the profiles' inheritance, which collects all problems in `problems`."""

    def __init__(self, profiles: Mapping[str, Profile], categories: Categories, bounds: LimitRanges) -> None:
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
            network=_merge_network(table.network, base.policy.network if parents else None),
            imports=_merge_imports(table.imports, base.policy.imports if parents else None, self._categories),
            adapter=_merge_adapter_contract(table.adapter, base.policy.adapter),
            commands=merge_commands(base.policy.commands, _build_commands(table.commands)),
            sql=_merge_sql(table.sql, base.policy.sql),
            quality=_merge_quality(table.quality, base.policy.quality),
            resources=_merge_resources(table.resources, base.policy.resources),
        )
        return ProfileDraft(policy=policy, bounds=_merge_bounds(table.bounds, base.bounds))

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
    yield from _find_wide_modules(profile, parents)
    images = sorted({parent.policy.image for parent in parents if parent.policy.image is not None})
    if len(images) > 1 and profile.table.image is None:
        message = f"the extended profiles name different images, {' and '.join(images)}: set image"
        yield profile.file.problem(("extends",), message)
    for limit, pair in profile.table.bounds:
        if pair is not None and pair[0] > pair[1]:
            yield profile.file.problem(("bounds", limit), "the minimum exceeds the maximum")
    yield from _find_unused_http_rules(profile)


def _find_wide_modules(profile: Profile, parents: Sequence[ProfileDraft]) -> Iterator[Problem]:
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


def _merge_network(table: NetworkTable, base: NetworkPolicy | None) -> NetworkPolicy:
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


def _merge_imports(table: ImportsTable, base: ImportPolicy | None, categories: Categories) -> ImportPolicy:
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


def _merge_adapter_contract(table: AdapterTable, base: AdapterContract) -> AdapterContract:
    """Return the merged contract: a list replaces the inherited one, but forbidden names accumulate."""
    return AdapterContract(
        decorators=_inherit_list(table.decorators, base.decorators),
        methods=_inherit_list(table.methods, base.methods),
        base_classes=_inherit_list(table.base_classes, base.base_classes),
        modules=_inherit_list(table.modules, base.modules),
        forbidden=base.forbidden | frozenset(table.forbidden or ()),
    )


def _merge_sql(table: SqlTable, base: SqlPolicy) -> SqlPolicy:
    stated = {name: RuleLevel(level) for name, level in table.rules.items()}
    rules = tuple(sorted({**dict(base.rules), **stated}.items()))
    return replace(base, rules=rules, **table.model_dump(exclude_none=True, exclude={"rules"}))


def _merge_quality(table: QualityTable, base: QualityPolicy) -> QualityPolicy:
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
        ignored_errors=IgnoredErrors(table.ignored_errors) if table.ignored_errors is not None else None,
    )


def _merge_resources(table: ResourcesTable, base: ResourcePolicy) -> ResourcePolicy:
    memory_mb = table.memory_mb
    return ResourcePolicy(
        timeout_s=_inherit_number(table.timeout_s, base.timeout_s),
        unit_timeout_s=_inherit_number(table.unit_timeout_s, base.unit_timeout_s),
        memory_bytes=base.memory_bytes if memory_mb is None else memory_mb * MEGABYTE,
        max_processes=base.max_processes if table.max_processes is None else table.max_processes,
    )


def _merge_bounds(table: BoundsTable, base: LimitRanges) -> LimitRanges:
    stated = {limit: LimitRange(least=pair[0], most=pair[1]) for limit, pair in table if pair is not None}
    return replace(base, **stated)


def _inherit_list(stated: list[str] | None, inherited: tuple[str, ...]) -> tuple[str, ...]:
    return inherited if stated is None else tuple(dict.fromkeys(stated))


def _inherit_flag(stated: bool | None, inherited: bool) -> bool:
    return inherited if stated is None else stated


def _inherit_number(value: float | None, inherited: float) -> float:
    return inherited if value is None else value
