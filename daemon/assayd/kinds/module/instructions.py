"""Describes the requirements for a module and the policy's permissions, for a prompt. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from assayd.findings.briefing import describe_allowances
from assayd.model.policy import AdapterContract, ExecutionPolicy

_TESTS = (
    "pytest runs the tests (test_*.py); an async test needs no mark. Tests make up the API's answers, for "
    "example by httpx.MockTransport or unittest.mock.patch."
)
_NOT_MEANT = frozenset({"_pytest", "builtins", "gc", "pluggy", "posix"})
"""Refused modules that a prompt doesn't name: no submission needs them."""
MANIFEST = (
    "manifest.json needs module_id (category/platform), version (such as 1.0.0), category, platform (both "
    "lowercase with _), entrypoint (the class, or its file without .py), and capabilities (one or more "
    "words). Optional: description, auth, pagination, rate_limits, outputs, artifacts; nothing else."
)
TESTS_STAY = "Keep the tests unchanged: correct the code so that it meets their expectations."


def build_instructions(
    policy: ExecutionPolicy | None, *, tests: bool = True, allowed: bool = True
) -> tuple[str, ...]:
    """Return the instructions for a module, based on the effective policy or on the contract alone.

    Args:
        policy: the effective policy, or None to use the contract alone.
        tests: whether the answer can contain tests.
        allowed: whether the instructions include the allowed imports.
    """
    contract = AdapterContract() if policy is None else policy.adapter
    lines = [*_describe_contract(contract), *([_TESTS] if tests else [])]
    return (*lines, *(_describe_allowances(policy) if policy is not None and allowed else ()))


def _describe_contract(contract: AdapterContract) -> Iterator[str]:
    decorators, bases = " or ".join(contract.decorators), " or ".join(contract.base_classes)
    source = f" (imported from {' or '.join(contract.modules)})" if contract.modules else ""
    yield (
        f"adapter.py has one class. Its decorator is {decorators}{source}, and its own methods include "
        f"{', '.join(contract.methods)}. Files import one another by name."
    )
    if bases:
        yield (
            f"The base class {bases} keeps its constructor's keyword arguments in the dict self.config. "
            "Methods that fetch are async; transform returns plain JSON data, a dict or a list."
        )


def _describe_allowances(policy: ExecutionPolicy) -> Iterator[str]:
    contract = policy.adapter
    yield from describe_allowances(policy, also=(*contract.modules, "adapter"))
    if policy.reports_only:
        return
    named = contract.forbidden - policy.imports.denied - _NOT_MEANT
    refused = sorted(name for name in named if "." not in name)
    if any(name.startswith("os.") for name in named):
        refused.append("functions of os that start or end processes")
    if refused:
        *others, last = refused
        listed = f"{', '.join(others)}, or {last}" if others else last
        yield f"No file may use {listed}."
