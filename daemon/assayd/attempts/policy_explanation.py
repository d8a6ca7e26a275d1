"""Determines a profile's static findings for a snippet by checking it within a valid sample of a kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assayd.analysis.analyst import Analyst
from assayd.errors import RequestError
from assayd.kind import Kind
from assayd.model.finding import Finding
from assayd.model.levels import is_quality_finding
from assayd.model.policy import ExecutionPolicy, ImportMode

PYTHON = "python"
ENFORCED, OBSERVED = "module", "code"
"""The kinds of Python if no kind has the profile as its default: does the profile enforce imports?"""
_LABEL = "Step 1 (snippet): "
"""How messages about the only step begin."""


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
    before = _good_payload(reader)
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


def _good_payload(kind: Kind) -> Mapping[str, Any]:
    good = next((sample.payload for sample in kind.samples if sample.verdict == "validated"), None)
    if good is None:
        raise RequestError("invalid", f"the kind {kind.name} has no sample to try it with", field="kind")
    return good


def _add_snippet(snippet: Snippet, payload: Mapping[str, Any], kind: Kind) -> tuple[Mapping[str, Any], int]:
    """Put the snippet into a payload; return the payload and the number of lines before the snippet."""
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
