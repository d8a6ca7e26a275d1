from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assayd.policies import PolicySet, load_policies

CATEGORIES = '[categories]\nstandard_lib = ["json", "os"]\ntesting = ["pytest"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "categories.toml").write_text(CATEGORIES)
    return tmp_path


@pytest.fixture
def load(folder: Path) -> Callable[..., PolicySet]:
    """Return a function that loads profiles from keyword arguments: name = text of the file."""

    def write_and_load(**profiles: str) -> PolicySet:
        for name, text in profiles.items():
            (folder / f"{name}.toml").write_text(text)
        return load_policies([folder])

    return write_and_load
