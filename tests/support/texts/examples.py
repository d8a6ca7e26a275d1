"""The examples in prompts, as submissions."""

from __future__ import annotations

import json

from assayd.analysis.messages import PatchRequest
from assayd.analysis.worker import build_briefing, patch
from assayd.kind import Kind
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies

POLICIES = load_policies([get_shared_data_path("policies")])


def example_submission(kind: Kind) -> dict[str, object]:
    """Return the submission that results from a kind's example, under the default profile."""
    example = kind.example
    briefed = build_briefing(kind, json.dumps(example.context).encode(), POLICIES.get(kind.default_policy))
    patched = patch(kind, PatchRequest(payload=briefed.base, passage="", proposal=example.answer))
    assert patched.problem is None
    return {"kind": kind.name, "payload": patched.payload}
