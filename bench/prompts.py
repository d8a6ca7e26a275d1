"""Counts the bytes of prompts for a fixed set of requests and repairs, without a daemon and without a model.

    python -m bench.prompts

The requests are those of bench/generate. The repairs are those broken submissions of bench/repair that a
static stage refuses, worded as a first request for a fix. Prints count, median, largest and sum by kind.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from assayd.analysis.worker import build_briefing, run_stages
from assayd.kinds import registry
from assayd.model.report import StageStatus
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd_chains.model import Strategy
from assayd_chains.prompts import Prompt, build_fix_prompt, build_generation_prompt
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.worker import parse_shell
from bench.generate import intents
from bench.repair import cases

POLICIES = load_policies([get_shared_data_path("policies")])
reader.install_reader(parse_shell)
Sized = tuple[str, str, int]


def requests() -> Iterator[Sized]:
    """Return group, kind and bytes of the first prompt of every request."""
    for intent in intents.load():
        yield "request", intent.kind, _bytes(first_request(intent))


def first_request(intent: intents.Intent) -> Prompt:
    """Return the first prompt of a request."""
    kind = registry.find_validator(intent.kind)
    policy = POLICIES.get(kind.default_policy)
    briefed = build_briefing(kind, json.dumps(intent.context).encode(), policy)
    return build_generation_prompt(briefed.briefing, intent.words)


def repairs() -> Iterator[Sized]:
    """Return group, kind and bytes of the first prompt of every repair of what is refused unrun."""
    for case in cases.load():
        if (prompt := first_fix(case)) is not None:
            yield "repair", case.kind, _bytes(prompt)


def first_fix(case: cases.Case) -> Prompt | None:
    """Return the first prompt of a repair; None if no static stage refuses the submission."""
    submission = case.submission(case.broken)
    kind = registry.find_validator(str(submission["kind"]))
    policy = POLICIES.get(kind.default_policy)
    payload = kind.payload.model_validate_json(json.dumps(submission["payload"]))
    failed = [one for one in run_stages(kind, payload, policy) if one.status is StageStatus.FAILED]
    if not failed:
        return None
    found = [finding for stage in failed for finding in stage.findings if finding.is_error]
    report = {
        "stage_reached": failed[0].name,
        "retry_context": kind.retry_context(found, failed[0].name, policy),
        "findings": [
            {"severity": "error", "rule": one.rule, "message": one.message, "file": one.file} for one in found
        ],
    }
    return build_fix_prompt(kind.context(payload, report, policy), Strategy.FIX)


def _bytes(prompt: Prompt) -> int:
    return len(prompt.system.encode()) + len(prompt.user.encode())


def main() -> None:
    """Count, and print."""
    sizes: dict[tuple[str, str], list[int]] = defaultdict(list)
    for group, kind, size in (*requests(), *repairs()):
        sizes[group, kind].append(size)
        sizes[group, "all"].append(size)
    for (group, kind), found in sorted(sizes.items()):
        print(
            f"{group:8} {kind:10} {len(found):3}  median {median(found):7.0f}  "
            f"most {max(found):6}  sum {sum(found):7}"
        )


if __name__ == "__main__":
    main()
