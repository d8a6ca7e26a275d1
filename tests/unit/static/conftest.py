from __future__ import annotations

import pytest

from assayd.model.policy import ExecutionPolicy
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies


@pytest.fixture(scope="session")
def policy() -> ExecutionPolicy:
    """Return the shipped profile for extractors."""
    return load_policies([get_shared_data_path("policies")]).get("extractor")
