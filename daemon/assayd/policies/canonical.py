"""Converts a policy to plain JSON with the origin of each value, and computes its digest.

A value's origin is the profile itself or an extended profile, by the rules of `resolve`: the nearest
profile determines a limit, and every profile can add to a list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType

from assayd.model.policy import (
    CommandPolicy,
    ExecutionPolicy,
    IgnoredErrorSeverity,
    ImportPolicy,
    NetworkPolicy,
)
from assayd.model.submission import JsonValue
from assayd.policies.files import Profile

MEGABYTE = 2**20


def build_effective_values(policy: ExecutionPolicy) -> dict[str, JsonValue]:
    """Return the values that apply to submitted code. Policies with equal values have equal digests."""
    adapter, resources = policy.adapter, policy.resources
    return {
        "enforcement": policy.enforcement.value,
        "approve_reported": policy.approve_reported,
        "image": policy.image,
        "exec": policy.exec,
        "network": _build_network_values(policy.network),
        "imports": _build_import_values(policy.imports),
        "adapter": {
            "decorators": list(adapter.decorators),
            "methods": list(adapter.methods),
            "base_classes": list(adapter.base_classes),
            "modules": list(adapter.modules),
            "forbidden": _to_sorted_list(adapter.forbidden),
        },
        "commands": _build_command_values(policy.commands),
        "sql": {**asdict(policy.sql), "rules": {name: level.value for name, level in policy.sql.rules}},
        "quality": {
            **asdict(policy.quality),
            "rules": {name: level.value for name, level in policy.quality.rules},
        },
        "resources": {
            "timeout_s": resources.timeout_s,
            "unit_timeout_s": resources.unit_timeout_s,
            "memory_mb": _to_plain_number(resources.memory_bytes / MEGABYTE),
            "max_processes": resources.max_processes,
        },
    }


def _build_network_values(network: NetworkPolicy) -> dict[str, JsonValue]:
    return {
        "mode": network.mode.value,
        "hosts": _to_sorted_list(network.hosts),
        "ports": [*sorted(network.ports)],
        "connect_timeout_s": network.connect_timeout_s,
        "http": {
            host: {"methods": _to_sorted_list(rule.methods), "paths": _to_sorted_list(rule.paths)}
            for host, rule in sorted(network.http.items())
        },
    }


def _build_import_values(imports: ImportPolicy) -> dict[str, JsonValue]:
    return {
        "mode": imports.mode.value,
        "categories": list(imports.categories),
        "allowed": _to_sorted_list(imports.allowed),
        "denied": _to_sorted_list(imports.denied),
        "submodules": imports.submodules.value,
        "names": {module: _to_sorted_list(names) for module, names in sorted(imports.names.items())},
        "enforce_forbidden": imports.enforce_forbidden,
    }


def _build_command_values(commands: CommandPolicy) -> dict[str, JsonValue]:
    return {
        "allowed": _to_sorted_list(commands.allowed),
        "blocked": _to_sorted_list(commands.blocked),
        "builtins": _to_sorted_list(commands.builtins),
        "options": {name: _to_sorted_list(refused) for name, refused in sorted(commands.options.items())},
        "protected": _to_sorted_list(commands.protected),
        "ignored_errors": (commands.ignored_errors or IgnoredErrorSeverity.WARNING).value,
    }


def flatten_values(policy: ExecutionPolicy) -> dict[str, JsonValue]:
    """Return the values that apply to submitted code, keyed by dotted name."""
    return dict(_flatten(build_effective_values(policy), ""))


def _flatten(values: Mapping[str, JsonValue], within: str) -> Iterator[tuple[str, JsonValue]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{within}{key}.")
        else:
            yield f"{within}{key}", value


def describe_policy(
    policy: ExecutionPolicy, *, egress: bool = True, origins: Origins = MappingProxyType({})
) -> dict[str, JsonValue]:
    """Return a complete policy as shown by ``assay policy show`` and ``GET /v1/policies/{name}``."""
    reason = policy.find_unenforceable_part(egress=egress)
    return {
        "name": policy.name,
        "description": policy.description,
        **build_effective_values(policy),
        "clamped": [asdict(clamp) for clamp in policy.clamped],
        "digest": policy.digest,
        "enforceable": reason is None,
        "unenforceable_reason": reason,
        "origins": {
            field: [{"profile": each.profile, "file": str(each.file), "line": each.line} for each in places]
            for field, places in sorted(origins.items())
        },
    }


def add_digest(policy: ExecutionPolicy) -> ExecutionPolicy:
    """Return the policy together with the digest of its effective values."""
    text = json.dumps(build_effective_values(policy), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return replace(policy, digest=hashlib.sha256(text.encode()).hexdigest())


def _to_sorted_list(names: frozenset[str]) -> list[JsonValue]:
    return [*sorted(names)]


def _to_plain_number(number: float) -> JsonValue:
    return int(number) if number.is_integer() else number


ADDED = (
    "network.hosts",
    "network.ports",
    "imports.allowed",
    "imports.denied",
    "imports.categories",
    "imports.names.",
    "adapter.forbidden",
    "commands.allowed",
    "commands.blocked",
    "commands.builtins",
    "commands.options.",
    "commands.protected",
)
"""Prefixes of values that a profile adds to the inherited ones; it replaces all other values."""
IMPLIED = {
    "imports.categories": "imports.allowed",
    "imports.names": "imports.allowed",
    "network.http": "network.hosts",
}
"""Keys that also add to another value."""
NARROWING_KEY = "imports.only"
NARROWED_KEYS = ("imports.allowed", "imports.categories")
Effective = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOrigin:
    """The profile that sets a value, with the location in the profile's file."""

    profile: str
    file: Path
    line: int | None


Origins = Mapping[str, tuple[ValueOrigin, ...]]


def find_value_origins(
    name: str, profiles: Mapping[str, Profile], effective: Callable[[str], Effective]
) -> Origins:
    """Return the profiles that set each value, beginning with the nearest. Built-in values have none.

    Args:
        name: the profile's name.
        profiles: all profiles.
        effective: returns the values of a profile by dotted name.
    """
    profile = profiles[name]
    own = dict(_find_set_values(profile))
    found: dict[str, tuple[ValueOrigin, ...]] = {}
    for parent in profile.parents:
        theirs, mine = effective(parent), effective(name)
        for field, places in find_value_origins(parent, profiles, effective).items():
            same = field.startswith(ADDED) or theirs.get(field) == mine.get(field)
            if same and (field not in NARROWED_KEYS or NARROWING_KEY not in own):
                found[field] = tuple(dict.fromkeys((*found.get(field, ()), *places)))
    for field, place in own.items():
        inherited = found.get(field, ()) if field.startswith(ADDED) else ()
        found[field] = (place, *inherited)
    if NARROWING_KEY in own:
        found |= {field: (own[NARROWING_KEY], *found.get(field, ())) for field in NARROWED_KEYS}
        del found[NARROWING_KEY]
    return found


def _find_set_values(profile: Profile) -> Iterator[tuple[str, ValueOrigin]]:
    """Yield the values that a file sets, including the values to which it adds indirectly."""
    implied: dict[str, ValueOrigin] = {}
    for key in _iter_leaf_keys(profile.file.values):
        place = ValueOrigin(profile=profile.name, file=profile.file.path, line=profile.file.line(key))
        also = IMPLIED.get(".".join(key[:2]))
        if also is not None:
            implied.setdefault(also, place)
        yield ".".join(key), place
    stated = {".".join(key) for key in _iter_leaf_keys(profile.file.values)}
    yield from ((field, place) for field, place in implied.items() if field not in stated)


def _iter_leaf_keys(values: Mapping[str, object], within: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _iter_leaf_keys(value, (*within, key))
        elif within or key not in {"description", "extends"}:
            yield (*within, key)
