from __future__ import annotations

import pytest

from assayd.model.policy import ExecutionPolicy
from assayd.package_data import share
from assayd.policies import load_policies


@pytest.fixture(scope="session")
def policy() -> ExecutionPolicy:
    """Return the shipped profile for extractors."""
    return load_policies([share("policies")]).get("extractor")
