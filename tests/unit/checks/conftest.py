from __future__ import annotations

import pytest

from assayd.model.policy import ExecutionPolicy
from assayd.policies import load_policies
from assayd.share import share


@pytest.fixture(scope="session")
def policy() -> ExecutionPolicy:
    """The shipped profile for extractors."""
    return load_policies([share("policies")]).get("extractor")
