"""Execution policies: profiles in TOML files, composed, clamped, looked up, and tightened by requests.

read (files) -> resolve `extends` (resolve) -> clamp to bounds -> ExecutionPolicy
"""

from assayd.policies.canonical import describe_policy
from assayd.policies.load import PolicySet, load_policies, require_enforceable
from assayd.policies.override import tighten_policy
from assayd.policies.resolve import merge_policies

__all__ = [
    "PolicySet",
    "describe_policy",
    "load_policies",
    "merge_policies",
    "require_enforceable",
    "tighten_policy",
]
