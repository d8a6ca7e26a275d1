"""Applies a request's overrides, which can only restrict a policy.

The limits of a profile are clamped, whereas a request that exceeds the limits of its policy is rejected
with the name of the field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import TypeVar

from assayd import did_you_mean
from assayd.errors import RequestError
from assayd.model.hosts import entry_covers, normalize_entry
from assayd.model.policy import (
    SQL_RULES,
    CommandPolicy,
    Enforcement,
    ExecutionPolicy,
    HttpRule,
    ImportMode,
    ImportPolicy,
    NetworkMode,
    NetworkPolicy,
    ResourcePolicy,
    RuleLevel,
    SqlPolicy,
    SubmoduleRule,
    is_unambiguous_path,
)
from assayd.policies.canonical import MEGABYTE, add_digest

Table = Mapping[str, object]
_Number = TypeVar("_Number", int, float)
_Item = TypeVar("_Item", int, str)

# Names of a request travel to the runner in the header of one frame, so they are limited.
_ITEM_PATTERN = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_COMMAND_REGEX = re.compile(r"[A-Za-z0-9_.:\[-]{1,100}")
_MAX_NAMES = 200
_PRINTABLE_PATTERN = re.compile(r"[!-~]{1,200}")


_OVERRIDE_TABLES = ("enforcement", "network", "imports", "commands", "sql", "resources")


def tighten_policy(policy: ExecutionPolicy, overrides: Mapping[str, object]) -> ExecutionPolicy:
    """Return the policy tightened by a request's overrides, with its new digest.

    Without overrides, return it unchanged.

    Args:
        policy: the effective profile.
        overrides: plain JSON, e.g. ``{"resources": {"unit_timeout_s": 2}}``.

    Raises:
        RequestError: ``override.unknown``, ``override.type`` or ``override.wider``, each with the field.
    """
    if not overrides:
        return policy
    _reject_unknown_keys("overrides", overrides, _OVERRIDE_TABLES)
    known = tuple(Enforcement)
    enforcement = _read_tighter_choice(
        "overrides", "enforcement", overrides, policy.enforcement, "enforce", known
    )
    tables = {
        name: _require_table(f"overrides.{name}", value)
        for name, value in overrides.items()
        if name != "enforcement"
    }
    tightened = replace(
        policy,
        enforcement=Enforcement(enforcement),
        network=_tighten_network(policy.network, tables.get("network", {})),
        imports=_tighten_imports(policy.imports, tables.get("imports", {})),
        commands=_tighten_commands(policy.commands, tables.get("commands", {})),
        sql=_tighten_sql(policy.sql, tables.get("sql", {})),
        resources=_tighten_resources(policy.resources, tables.get("resources", {})),
    )
    return add_digest(tightened)


def _tighten_resources(policy: ResourcePolicy, table: Table) -> ResourcePolicy:
    at = "overrides.resources"
    _reject_unknown_keys(at, table, ("timeout_s", "unit_timeout_s", "memory_mb", "max_processes"))
    memory_mb = policy.memory_bytes // MEGABYTE
    timeout_s = _read_lowered_limit(at, "timeout_s", table, policy.timeout_s, _parse_number)
    unit_timeout_s = _read_lowered_limit(at, "unit_timeout_s", table, policy.unit_timeout_s, _parse_number)
    return ResourcePolicy(
        timeout_s=timeout_s,
        unit_timeout_s=min(unit_timeout_s, timeout_s),
        memory_bytes=_read_lowered_limit(at, "memory_mb", table, memory_mb, _parse_integer) * MEGABYTE,
        max_processes=_read_lowered_limit(at, "max_processes", table, policy.max_processes, _parse_integer),
    )


def _tighten_network(policy: NetworkPolicy, table: Table) -> NetworkPolicy:
    at = "overrides.network"
    _reject_unknown_keys(at, table, ("mode", "hosts", "ports", "connect_timeout_s", "http"))
    mode = NetworkMode(_read_tighter_choice(at, "mode", table, policy.mode, "blocked", tuple(NetworkMode)))
    hosts, http, ports = policy.hosts, dict(policy.http), policy.ports
    if "hosts" in table:
        narrowed = _narrow_hosts(f"{at}.hosts", table["hosts"], policy)
        hosts, http = frozenset(narrowed), {name: rule for name, rule in narrowed.items() if rule is not None}
    if "http" in table:
        http |= _tighten_http_rules(f"{at}.http", table["http"], hosts, http)
    if "ports" in table:
        ports = _require_subset(f"{at}.ports", _parse_ports(f"{at}.ports", table["ports"]), policy.ports)
    return NetworkPolicy(
        mode=mode,
        hosts=hosts,
        ports=ports,
        connect_timeout_s=_read_lowered_limit(
            at, "connect_timeout_s", table, policy.connect_timeout_s, _parse_number
        ),
        http=http,
    )


def _narrow_hosts(field: str, value: object, policy: NetworkPolicy) -> dict[str, HttpRule | None]:
    """Return each requested host with the HTTP rule of the narrowest entry that covers it.

    The rule is None if an entry without rules covers the host.

    Raises: RequestError, if a host is invalid or no entry covers it.
    """
    narrowed: dict[str, HttpRule | None] = {}
    for text in sorted(_parse_names(field, value)):
        try:
            entry = normalize_entry(text)
        except ValueError as problem:
            raise _build_type_error(field, str(problem)) from problem
        covering = sorted((own for own in policy.hosts if entry_covers(own, entry)), key=len)
        if not covering:
            raise _build_wider_error(field, f"not in the policy: {entry}")
        free = any(own not in policy.http for own in covering)
        narrowed[entry] = None if free else policy.http[covering[-1]]
    return narrowed


def _tighten_http_rules(
    field: str, value: object, hosts: frozenset[str], rules: Mapping[str, HttpRule]
) -> dict[str, HttpRule]:
    asked: dict[str, HttpRule] = {}
    for host, table in _require_table(field, value).items():
        at = f"{field}.{host[:100]}"
        if host not in hosts:
            raise _build_wider_error(at, "isn't one of the hosts; add it to hosts")
        asked[host] = _tighten_http_rule(at, _require_table(at, table), rules.get(host, HttpRule()))
    return asked


def _tighten_http_rule(at: str, table: Table, rule: HttpRule) -> HttpRule:
    _reject_unknown_keys(at, table, ("methods", "paths"))
    methods, paths = rule.methods, rule.paths
    if "methods" in table:
        methods = _parse_nonempty_set(f"{at}.methods", table["methods"])
        if beyond := [method for method in sorted(methods) if not rule.allows_method(method)]:
            raise _build_wider_error(f"{at}.methods", f"not in the policy: {beyond[0]}")
    if "paths" in table:
        paths = _parse_nonempty_set(f"{at}.paths", table["paths"])
        if beyond := [
            path for path in sorted(paths) if not (is_unambiguous_path(path) and rule.allows_path(path))
        ]:
            raise _build_wider_error(f"{at}.paths", f"not in the policy: {beyond[0]}")
    return HttpRule(methods=methods, paths=paths)


def _parse_nonempty_set(field: str, value: object) -> frozenset[str]:
    """Parse a list of strings.

    Raises: RequestError, if it is malformed or empty, because an empty list would allow everything.
    """
    texts = _require_list(field, value)
    if not texts or len(texts) > _MAX_NAMES:
        raise _build_type_error(field, f"must have between 1 and {_MAX_NAMES} strings")
    if not all(isinstance(text, str) and _PRINTABLE_PATTERN.fullmatch(text) for text in texts):
        raise _build_type_error(field, "must be a list of ASCII strings, each of at most 200 characters")
    return frozenset(str(text) for text in texts)


def _tighten_imports(policy: ImportPolicy, table: Table) -> ImportPolicy:
    at = "overrides.imports"
    _reject_unknown_keys(at, table, ("mode", "allowed", "denied", "submodules", "enforce_forbidden"))
    denied = _parse_names(f"{at}.denied", table.get("denied", []))
    forbid = table.get("enforce_forbidden", policy.enforce_forbidden)
    if not isinstance(forbid, bool):
        raise _build_type_error(f"{at}.enforce_forbidden", "must be true or false")
    if policy.enforce_forbidden and not forbid:
        raise _build_wider_error(f"{at}.enforce_forbidden", "can't be switched off")
    return replace(
        policy,
        mode=ImportMode(_read_tighter_choice(at, "mode", table, policy.mode, "enforce", tuple(ImportMode))),
        submodules=SubmoduleRule(
            _read_tighter_choice(at, "submodules", table, policy.submodules, "exact", tuple(SubmoduleRule))
        ),
        allowed=_check_allowed_modules(f"{at}.allowed", table["allowed"], policy)
        if "allowed" in table
        else policy.allowed,
        denied=policy.denied | denied,
        # Without enforcement, the list of denied names would have no effect.
        enforce_forbidden=forbid or bool(denied),
    )


def _tighten_commands(policy: CommandPolicy, table: Table) -> CommandPolicy:
    at = "overrides.commands"
    _reject_unknown_keys(at, table, ("allowed", "blocked", "builtins"))
    asked = {key: _parse_names(f"{at}.{key}", value, _COMMAND_REGEX) for key, value in table.items()}
    return replace(
        policy,
        allowed=_require_subset(f"{at}.allowed", asked.get("allowed", policy.allowed), policy.allowed),
        builtins=_require_subset(f"{at}.builtins", asked.get("builtins", policy.builtins), policy.builtins),
        blocked=policy.blocked | asked.get("blocked", frozenset()),
    )


def _tighten_sql(policy: SqlPolicy, table: Table) -> SqlPolicy:
    at, most = "overrides.sql", asdict(replace(policy, rules=()))
    _reject_unknown_keys(at, table, tuple(most))
    most.pop("rules")
    rules = _tighten_sql_rules(policy, table.get("rules", {}))
    limits = {
        name: _read_lowered_limit(at, name, table, value, _parse_integer) for name, value in most.items()
    }
    return SqlPolicy(rules=rules, **limits)


def _tighten_sql_rules(policy: SqlPolicy, given: object) -> tuple[tuple[str, RuleLevel], ...]:
    """Return the rule levels of a policy, tightened by the rule levels of a request.

    Raises: RequestError, if a rule or level is unknown, or a rule would become less strict.
    """
    at, levels = "overrides.sql.rules", dict(policy.rules)
    if not isinstance(given, dict):
        raise RequestError("override.type", f"{at} must map rules to levels", field=at)
    for name, text in given.items():
        if name not in SQL_RULES or text not in list(RuleLevel):
            message = f"{at}: {name!r} = {text!r} must be a rule of the profile with error, warning or off"
            raise RequestError("override.type", message, field=at)
        order = tuple(RuleLevel)
        if order.index(RuleLevel(text)) < order.index(levels.get(name, RuleLevel.ERROR)):
            raise _build_wider_error(at, f"{name} can only become stricter")
        levels[name] = RuleLevel(text)
    return tuple(sorted(levels.items()))


def _check_allowed_modules(field: str, value: object, policy: ImportPolicy) -> frozenset[str]:
    modules = _parse_names(field, value)
    for module in sorted(modules):
        if not policy.allows(module):
            raise _build_wider_error(field, f"{module!r} isn't allowed by the policy")
    return modules


def _read_lowered_limit(
    at: str, key: str, table: Table, most: _Number, read: Callable[[str, object], _Number]
) -> _Number:
    if key not in table:
        return most
    value = read(f"{at}.{key}", table[key])
    if value > most:
        raise _build_wider_error(f"{at}.{key}", f"{value:g} exceeds the policy's {most:g}")
    return value


def _read_tighter_choice(
    at: str, key: str, table: Table, current: str, tightest: str, known: tuple[str, ...]
) -> str:
    value = table.get(key, current)
    if value not in known:
        raise _build_type_error(f"{at}.{key}", "must be one of " + ", ".join(known))
    if value not in {current, tightest}:
        raise _build_wider_error(f"{at}.{key}", f"{value} is wider than the policy's {current}")
    return str(value)


def _require_subset(field: str, asked: frozenset[_Item], allowed: frozenset[_Item]) -> frozenset[_Item]:
    if beyond := asked - allowed:
        raise _build_wider_error(
            field, "not in the policy: " + ", ".join(str(item) for item in sorted(beyond))
        )
    return asked


def _parse_number(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _build_type_error(field, "must be a number")
    if not math.isfinite(value) or value <= 0:
        raise _build_type_error(field, "must be a finite number above 0")
    return float(value)


def _parse_integer(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _build_type_error(field, "must be an integer, 1 or more")
    return value


def _parse_names(field: str, value: object, pattern: re.Pattern[str] = _ITEM_PATTERN) -> frozenset[str]:
    names = _require_list(field, value)
    if not all(isinstance(name, str) and pattern.fullmatch(name) for name in names):
        raise _build_type_error(
            field, "must be a list of dotted names or hosts, each of at most 100 characters"
        )
    if len(names) > _MAX_NAMES:
        raise _build_type_error(field, f"has more than {_MAX_NAMES} names")
    return frozenset(str(name) for name in names)


def _parse_ports(field: str, value: object) -> frozenset[int]:
    return frozenset(_parse_integer(field, item) for item in _require_list(field, value))


def _require_list(field: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise _build_type_error(
            field, "must be a list; on a command line, write a,b or, for a single item, a,"
        )
    return value


def _require_table(field: str, value: object) -> Table:
    if not isinstance(value, Mapping):
        raise _build_type_error(field, "must be an object")
    return value


def _reject_unknown_keys(at: str, table: Table, known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            hint = did_you_mean.format_did_you_mean_hint(key, known)
            message = f"{at}.{key}: unknown key{hint}; use one of {', '.join(known)}"
            raise RequestError("override.unknown", message, field=f"{at}.{key}")


def _build_type_error(field: str, message: str) -> RequestError:
    return RequestError("override.type", f"{field}: {message}", field=field)


def _build_wider_error(field: str, message: str) -> RequestError:
    return RequestError("override.wider", f"{field}: {message}; a request can only tighten", field=field)
