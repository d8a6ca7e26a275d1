"""Execution policies: profiles in TOML files, composed, clamped, looked up, and tightened by requests.

read (files) -> resolve `extends` (resolve, merge) -> clamp to bounds -> ExecutionPolicy
"""

from assayd.policies.canonical import describe, unenforceable
from assayd.policies.load import PolicySet, load_policies, require_enforceable
from assayd.policies.merge import merge
from assayd.policies.override import tighten

__all__ = [
    "PolicySet",
    "describe",
    "load_policies",
    "merge",
    "require_enforceable",
    "tighten",
    "unenforceable",
]
