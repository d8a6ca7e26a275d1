"""Suggests additions to a profile, and explains a profile's static findings for a snippet.

A suggestion contains the smallest additions that would have allowed the refused code. Additions that would
weaken isolation are never suggested, but listed as withheld, with the reason. Each name is taken from a
finding's `subject`. Because submitted code controls this text, the name must have a form that a profile
file accepts.

A snippet is checked within a valid sample of a kind.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from assayd.analysis.analyst import Analyst
from assayd.errors import RequestError
from assayd.kind import Kind
from assayd.model.attempt import Attempt
from assayd.model.finding import Finding
from assayd.model.merge import is_quality_finding
from assayd.model.policy import SQL_RULES, ExecutionPolicy, ImportMode
from assayd.policies.files import is_command, is_dotted_name, is_host
from assayd.static.python.names import get_refusal_reason

MAX_NAMES = 500
"""The maximum number of additions, and of withheld names, in one suggestion."""
_REASON_BY_KEY = {
    "enforcement": 'the rule belongs to the profile\'s mode; `enforcement` = "report" would only report it',
    "adapter.forbidden": "the contract of adapters forbids the name",
    "commands.blocked": "the profile blocks the command by name",
    "commands.options": "the option runs programs or reaches files",
    "commands.protected": "the variable controls which programs and libraries are found",
}
_SHELL_BUILTINS = frozenset({".", "alias", "enable", "eval", "exec", "kill", "source", "trap"})


@dataclass(slots=True, kw_only=True)
class PolicyAddition:
    """A name under a key, with the count of attempts that needed it. `enough` of them needed only this."""

    key: str
    name: str
    reason: str | None = None
    count: int = 0
    enough: int = 0
    first_at: datetime
    last_at: datetime

    def add(self, at: datetime, *, enough: bool) -> None:
        """Count an attempt that needs this addition."""
        self.count += 1
        self.enough += enough
        self.first_at, self.last_at = min(self.first_at, at), max(self.last_at, at)


@dataclass(slots=True, kw_only=True)
class PolicySuggestion:
    """The additions that a profile needs. With all of them, `helped` attempts would have broken no rule."""

    policy: str
    seen: int = 0
    helped: int = 0
    additions: dict[tuple[str, str], PolicyAddition] = field(default_factory=dict)
    withheld: dict[tuple[str, str], PolicyAddition] = field(default_factory=dict)

    def note(self, attempt: Attempt, findings: Iterable[Finding], policy: ExecutionPolicy) -> None:
        """Count an attempt under each addition that the profile would need to allow it.

        If the profile already allows it, do nothing.
        """
        keyed = [finding for finding in findings if finding.profile_key is not None]
        needed = {
            _derive_addition(finding, policy): None for finding in keyed if not _is_allowed(finding, policy)
        }
        if not needed:
            return
        self.seen += 1
        possible = [each for each in needed if each[2] is None]
        self.helped += len(possible) == len(needed)
        for key, name, reason in needed:
            into = self.additions if reason is None else self.withheld
            if (key, name) not in into and len(into) >= MAX_NAMES:
                continue
            at = attempt.created_at
            made = PolicyAddition(key=key, name=name, reason=reason, first_at=at, last_at=at)
            into.setdefault((key, name), made).add(at, enough=len(needed) == 1)

    def toml(self) -> str:
        """Return the additions as the TOML text of a profile that extends the reviewed profile."""
        tables: dict[str, dict[str, set[str]]] = {}
        for addition in self.additions.values():
            table, _, key = addition.key.rpartition(".")
            name = addition.name
            if addition.key == "imports.names":
                table = addition.key
                key, _, name = addition.name.rpartition(".")
            tables.setdefault(table, {}).setdefault(key, set()).add(name)
        parts = [f"extends = {json.dumps(self.policy)}"]
        parts += ["\n".join(_render_table(name, keys)) for name, keys in sorted(tables.items())]
        return "\n\n".join(parts) + "\n"


def _render_table(name: str, keys: Mapping[str, set[str]]) -> list[str]:
    """Return the lines of a table of a profile file, with the keys that the table requires."""
    if name == "sql":
        return ["[sql.rules]", *(f'{json.dumps(rule)} = "warning"' for rule in sorted(keys["rules"]))]
    stated = [
        f"{key if key.isidentifier() else json.dumps(key)} = {json.dumps(sorted(names))}"
        for key, names in sorted(keys.items())
    ]
    return [f"[{name}]", *(['mode = "allowlist"'] if name == "network" else []), *stated]


def _is_allowed(finding: Finding, policy: ExecutionPolicy) -> bool:
    """Return whether the profile already allows a name that another profile refused."""
    name = finding.subject or ""
    match finding.profile_key:
        case "imports.allowed":
            return policy.imports.allows(name)
        case "imports.names":
            module, _, attribute = name.rpartition(".")
            names = policy.imports.names.get(module)
            return policy.imports.allows(module) and (names is None or attribute in names)
        case "commands.allowed" | "commands.builtins":
            return name in policy.commands.allowed | policy.commands.builtins
        case "sql.rules":
            return policy.sql.admits(finding.rule)
        case _:
            return False


def _derive_addition(finding: Finding, policy: ExecutionPolicy) -> tuple[str, str, str | None]:
    """Return the key and name that would resolve a finding, and the reason if they aren't suggested.

    The reason is None if they are suggested.
    """
    key, name = finding.profile_key or "", finding.subject or finding.rule
    if key == "sql.rules":
        return key, finding.rule, None if finding.rule in SQL_RULES else "no profile may set the rule"
    if key in _REASON_BY_KEY or not finding.subject:
        return key, name, _REASON_BY_KEY.get(key, "the report names no module, attribute or command")
    if key in {"imports.allowed", "imports.names"}:
        return key, name, _get_import_refusal_reason(key, name, policy)
    if key == "commands.builtins" and name in _SHELL_BUILTINS:
        return key, name, "the builtin runs text as code, or redefines names"
    if key == "network.hosts":
        name = name.rpartition(":")[0] or name
        return key, name, None if is_host(name) else "the name isn't a public host"
    return key, name, None if is_command(name) else "the name isn't one that a profile can list"


def _get_import_refusal_reason(key: str, name: str, policy: ExecutionPolicy) -> str | None:
    module = name.rpartition(".")[0] if key == "imports.names" else name
    if not is_dotted_name(name):
        return "the name isn't one that a profile can list"
    if any(name == one or name.startswith(f"{one}.") for one in policy.imports.denied):
        return "the profile denies the name"
    reason = get_refusal_reason(name) or (get_refusal_reason(module) if key == "imports.names" else None)
    return f"it guards isolation: {reason}" if reason else None


async def suggest_additions(
    policy: ExecutionPolicy,
    attempts: AsyncIterator[Attempt],
    findings: Callable[[Attempt], Awaitable[Iterable[Finding]]],
) -> PolicySuggestion:
    """Return the additions that a profile needs to allow attempts that it refused or would have refused."""
    suggestion = PolicySuggestion(policy=policy.name)
    async for attempt in attempts:
        suggestion.note(attempt, await findings(attempt), policy)
    return suggestion


def listed(additions: Mapping[tuple[str, str], PolicyAddition]) -> list[PolicyAddition]:
    """Return the additions, sorted by the number of attempts in descending order."""
    return sorted(additions.values(), key=lambda one: (-one.count, one.key, one.name))


PYTHON = "python"
ENFORCED, OBSERVED = "module", "code"
"""The kinds that check Python if no kind has the profile as its default: the first if the profile enforces
imports, otherwise the second.
"""
_LABEL = "Step 1 (snippet): "
"""The prefix of messages about the snippet if it is checked as a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """A piece of code: `language` is ``python``, ``bash`` or ``sql``."""

    language: str
    text: str


async def explain(
    snippet: Snippet,
    policy: ExecutionPolicy,
    kinds: Mapping[str, Kind],
    analyst: Analyst,
    *,
    kind: str | None,
    uid: int,
) -> tuple[str, Sequence[Finding]]:
    """Return the kind that checked a snippet, and its findings, whose line numbers refer to the snippet.

    Raises: RequestError ``kind.unknown``; ``invalid``, if the kind doesn't accept such code.
    """
    name = kind or _choose_kind(snippet, policy, kinds)
    reader = kinds.get(name)
    if reader is None:
        raise RequestError("kind.unknown", f"unknown kind {name[:64]!r}", field="kind")
    before = _build_valid_payload(reader)
    after, first_line = _add_snippet(snippet, before, reader)
    found = await _check_payload(reader, after, policy, analyst, uid)
    known = {(each.rule, each.message) for each in await _check_payload(reader, before, policy, analyst, uid)}
    return name, [
        replace(
            each,
            message=each.message.removeprefix(_LABEL),
            line=each.line - first_line if each.line and each.line > first_line else None,
        )
        for each in found
        if (each.rule, each.message) not in known and not is_quality_finding(each)
    ]


def _choose_kind(snippet: Snippet, policy: ExecutionPolicy, kinds: Mapping[str, Kind]) -> str:
    if snippet.language != PYTHON:
        of_steps = next((name for name, kind in kinds.items() if "steps" in kind.forms), None)
        if of_steps is None:
            raise RequestError("invalid", f"no kind takes {snippet.language} code", field="language")
        return of_steps
    of_profile = (
        name for name, kind in kinds.items() if kind.default_policy == policy.name and kind.language == PYTHON
    )
    return next(of_profile, ENFORCED if policy.imports.mode is ImportMode.ENFORCE else OBSERVED)


def _build_valid_payload(kind: Kind) -> Mapping[str, Any]:
    good = next((sample.payload for sample in kind.samples if sample.verdict == "validated"), None)
    if good is None:
        raise RequestError("invalid", f"the kind {kind.name} has no sample to try it with", field="kind")
    return good


def _add_snippet(snippet: Snippet, payload: Mapping[str, Any], kind: Kind) -> tuple[Mapping[str, Any], int]:
    """Insert the snippet into a payload. Return the payload and the number of lines before the snippet.

    Raises: RequestError ``invalid``, if the kind doesn't accept code in the snippet's language.
    """
    if snippet.language != PYTHON and "steps" in payload:
        step = {"name": "snippet", "type": snippet.language, "content": snippet.text}
        return {**payload, "steps": [step]}, 0
    text = payload.get(kind.code_field)
    if snippet.language == PYTHON and isinstance(text, str):
        return {**payload, kind.code_field: f"{text}\n{snippet.text}\n"}, text.count("\n") + 1
    files = payload.get("files")
    if snippet.language == PYTHON and isinstance(files, Mapping):
        name = min(name for name in files if name.endswith(".py") and not name.startswith("test_"))
        changed = {**files, name: f"{files[name]}\n{snippet.text}\n"}
        return {**payload, "files": changed}, files[name].count("\n") + 1
    raise RequestError("invalid", f"the kind {kind.name} takes no {snippet.language} code", field="kind")


async def _check_payload(
    kind: Kind, payload: Mapping[str, Any], policy: ExecutionPolicy, analyst: Analyst, uid: int
) -> list[Finding]:
    read = kind.payload.model_validate(payload)
    stages = await analyst.stages(kind, read, policy, flow=(uid, "policy-explanation"))
    return [finding for stage in stages for finding in stage.findings]
