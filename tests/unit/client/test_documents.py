"""Types of answers, which are imported by name when they are first used."""

from __future__ import annotations

import pytest

from assayd_client import documents


@pytest.mark.parametrize("name", documents._MODULE_BY_NAME)
def test_type_of_an_answer_is_found_in_its_module(name: str) -> None:
    assert getattr(documents, name).__name__ == name
