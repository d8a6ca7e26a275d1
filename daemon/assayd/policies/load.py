"""Loads all profiles, clamps them, and looks them up.

Loading is all or nothing: a problem in any file rejects the whole set, with a list of all problems, so that a
daemon never serves an incomplete set of policies.

Limits of profiles are clamped to the bounds, and each change is recorded. Requests beyond a limit are
rejected instead (`override`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from assayd import did_you_mean
from assayd.errors import RequestError
from assayd.model.policy import DEFAULT_BOUNDS, ClampedValue, ExecutionPolicy, LimitRange, LimitRanges
from assayd.policies.canonical import (
    MEGABYTE,
    Origins,
    add_digest,
    find_value_origins,
    flatten_values,
)
from assayd.policies.files import CODE, Profile, find_profile_paths, read_categories, read_profile
from assayd.policies.resolve import ProfileDraft, ProfileResolver, merge_bounds
from assayd.tomlfile import FileError, Problem


def clamp_policy(policy: ExecutionPolicy, bounds: LimitRanges) -> ExecutionPolicy:
    """Return the policy with clamped limits, a record of each change, and its digest.

    The time limit of a unit is clamped to the time limit of the attempt.
    """
    asked = policy.resources
    timeout_s = bounds.timeout_s.clamp(asked.timeout_s)
    given = replace(
        asked,
        timeout_s=timeout_s,
        unit_timeout_s=min(bounds.unit_timeout_s.clamp(asked.unit_timeout_s), timeout_s),
        memory_bytes=int(bounds.memory_mb.clamp(asked.memory_bytes / MEGABYTE) * MEGABYTE),
        max_processes=int(bounds.max_processes.clamp(asked.max_processes)),
    )
    pairs = (
        ("timeout_s", asked.timeout_s, given.timeout_s),
        ("unit_timeout_s", asked.unit_timeout_s, given.unit_timeout_s),
        ("memory_mb", asked.memory_bytes / MEGABYTE, given.memory_bytes / MEGABYTE),
        ("max_processes", asked.max_processes, given.max_processes),
    )
    return add_digest(replace(policy, resources=given, clamped=tuple(_list_clamps(pairs))))


def restrict_bounds(bounds: LimitRanges, widest: LimitRanges) -> LimitRanges:
    """Return the bounds, restricted to the operator's widest bounds."""
    return LimitRanges(
        timeout_s=_clamp_range(bounds.timeout_s, widest.timeout_s),
        unit_timeout_s=_clamp_range(bounds.unit_timeout_s, widest.unit_timeout_s),
        memory_mb=_clamp_range(bounds.memory_mb, widest.memory_mb),
        max_processes=_clamp_range(bounds.max_processes, widest.max_processes),
    )


def _clamp_range(inner: LimitRange, outer: LimitRange) -> LimitRange:
    return LimitRange(least=outer.clamp(inner.least), most=outer.clamp(inner.most))


def _list_clamps(pairs: tuple[tuple[str, float, float], ...]) -> Iterator[ClampedValue]:
    for field, requested, effective in pairs:
        if requested != effective:
            yield ClampedValue(field=f"resources.{field}", requested=requested, effective=effective)


WIDEST_BOUNDS = LimitRanges(max_processes=LimitRange(least=1, most=64))
"""The widest bounds that a profile can set, unless the operator sets others."""


class PolicySet:
    """A set of the profiles in one or more folders, with their effective values."""

    def __init__(
        self, folders: Sequence[Path], bounds: LimitRanges, widest: LimitRanges, *, egress: bool
    ) -> None:
        self.egress = egress
        self._folders = tuple(folders)
        self._bounds = bounds
        self._widest = merge_bounds(bounds, widest)
        self._policies: dict[str, ExecutionPolicy] = {}
        self._paths: dict[str, Path] = {}
        self._origins: dict[str, Origins] = {}
        self.reload_problem = ""
        """The reason why the last `reload` failed, in which case the earlier profiles stay in use."""
        self.on_reload: Callable[[], None] = lambda: None
        """Called after each successful reload."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the sorted names of all profiles."""
        return tuple(sorted(self._policies))

    def get(self, name: str) -> ExecutionPolicy:
        """Return a profile.

        Raises:
            RequestError: ``policy.unknown``, if no profile has this name; the message lists the known names.
        """
        if name not in self._policies:
            known = ", ".join(self.names)
            hint = did_you_mean.format_did_you_mean_hint(name, self.names)
            message = f"unknown policy {name!r}{hint}; use one of {known}"
            raise RequestError("policy.unknown", message, field="policy")
        return self._policies[name]

    def get_digests_by_name(self) -> Mapping[str, str]:
        """Return the digest of every profile by name."""
        return {name: self._policies[name].digest for name in self.names}

    def get_profiles_by_image(self) -> Mapping[str, Sequence[str]]:
        """Return the images that profiles use, each with the names of the profiles that use it."""
        named: dict[str, list[str]] = {}
        for name in self.names:
            image = self._policies[name].image
            if image is not None:
                named.setdefault(image, []).append(name)
        return named

    def path(self, name: str) -> Path:
        """Return the file of a known profile."""
        return self._paths[name]

    def get_value_origins(self, name: str) -> Origins:
        """Return the profiles that set the values of a known profile."""
        return self._origins[name]

    def resolve_file(self, path: Path, content: bytes | None = None) -> ExecutionPolicy:
        """Return the policy that a file would define if it were loaded with this set's other files.

        Args:
            path: the file.
            content: its content, if known; in that case, the file isn't read.

        Raises:
            FileError: with all problems of the file.
        """
        candidate = read_profile(path, content)
        others = {name: other for name, other in self._paths.items() if name != candidate.name}
        profiles = {**_read_profiles(others), candidate.name: candidate}
        resolver = ProfileResolver(profiles, read_categories(self._folders), self._bounds)
        draft = resolver.resolve_draft(candidate.name)
        if draft is None:
            raise FileError(CODE, resolver.problems)
        reason = draft.policy.find_unenforceable_part(egress=self.egress)
        if reason is not None:
            raise FileError(CODE, [candidate.file.problem(("network", "hosts"), reason)])
        return self._apply_bounds(draft)

    def reload(self) -> None:
        """Read and resolve all files again.

        Raises:
            FileError: with all problems of all files; in that case, the set doesn't change.
        """
        try:
            self._load()
        except FileError as error:
            self.reload_problem = error.message
            raise
        self.reload_problem = ""
        self.on_reload()

    def _load(self) -> None:
        paths = find_profile_paths(self._folders)
        profiles = _read_profiles(paths)
        resolver = ProfileResolver(profiles, read_categories(self._folders), self._bounds)
        drafts = {name: resolver.resolve_draft(name) for name in profiles}
        if resolver.problems:
            raise FileError(CODE, resolver.problems)
        self._policies = {
            name: self._apply_bounds(draft) for name, draft in drafts.items() if draft is not None
        }
        self._paths = paths
        values = {name: flatten_values(draft.policy) for name, draft in drafts.items() if draft is not None}
        self._origins = {name: find_value_origins(name, profiles, values.__getitem__) for name in profiles}

    def _apply_bounds(self, draft: ProfileDraft) -> ExecutionPolicy:
        return clamp_policy(draft.policy, restrict_bounds(draft.bounds, self._widest))


def load_policies(
    folders: Sequence[Path],
    *,
    bounds: LimitRanges = DEFAULT_BOUNDS,
    widest: LimitRanges = WIDEST_BOUNDS,
    egress: bool = True,
) -> PolicySet:
    """Load the profiles of all folders. A file replaces a file of the same name in an earlier folder.

    Args:
        folders: the folders of the files, the shipped folder first.
        bounds: the bounds of profiles that don't set their own.
        widest: the widest bounds that a profile can set.
        egress: whether the relay is enabled.

    Raises:
        FileError: with all problems of all files.
    """
    policies = PolicySet(folders, bounds, widest, egress=egress)
    policies.reload()
    return policies


def require_enforceable(policy: ExecutionPolicy, *, egress: bool = True) -> None:
    """Reject a policy that can't be enforced.

    Args:
        policy: the effective profile.
        egress: whether the relay is enabled.

    Raises:
        RequestError: ``policy.unenforceable``.
    """
    reason = policy.find_unenforceable_part(egress=egress)
    if reason is not None:
        message = f"policy {policy.name!r} can't be enforced: {reason}"
        raise RequestError("policy.unenforceable", message, field="policy")


def _read_profiles(paths: Mapping[str, Path]) -> dict[str, Profile]:
    profiles: dict[str, Profile] = {}
    problems: list[Problem] = []
    for name, path in paths.items():
        try:
            profiles[name] = read_profile(path)
        except FileError as error:
            problems += error.problems
    if problems:
        raise FileError(CODE, problems)
    return profiles
