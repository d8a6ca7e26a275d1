"""The examples that prompts show, as submissions."""

from __future__ import annotations

import json

from assayd.analysis.messages import Patching
from assayd.analysis.worker import brief, patch
from assayd.package_data import share
from assayd.policies import load_policies
from assayd.ports.generatable import Example, Generatable
from assayd.ports.validator import Validator

POLICIES = load_policies([share("policies")])


def example_of(kind: Validator, context: object) -> Example:
    """Return the example in the prompt for a context."""
    policy = POLICIES.get(kind.default_policy)
    return brief(kind, json.dumps(context).encode(), policy).briefing.example


def example_submission(kind: Validator) -> dict[str, object]:
    """Return the submission that a kind's example makes of its own context, under the default profile."""
    assert isinstance(kind, Generatable)
    example = example_of(kind, STARTS.get(kind.kind, {}))
    briefed = brief(kind, json.dumps(example.context).encode(), POLICIES.get(kind.default_policy))
    patched = patch(kind, Patching(payload=briefed.base, passage="", proposal=example.answer))
    assert patched.problem is None
    return {"kind": kind.kind, "payload": patched.payload}


STARTS = {"extractor": {"sample_paths": ["/a"]}}
"""A context for those kinds that need one before they show their example."""
