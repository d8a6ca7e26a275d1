"""The shipped profiles, for tests of every package."""

from __future__ import annotations

import pytest

from assayd.model.policy import ExecutionPolicy
from assayd.package_data import get_shared_data_path
from assayd.policies import PolicySet, load_policies


@pytest.fixture(scope="session")
def policies() -> PolicySet:
    """Return the shipped profiles."""
    return load_policies([get_shared_data_path("policies")])


@pytest.fixture(scope="session")
def extractor_policy(policies: PolicySet) -> ExecutionPolicy:
    """Return the shipped profile for extractors."""
    return policies.get("extractor")
