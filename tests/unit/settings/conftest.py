from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("ASSAYD_"):
            monkeypatch.delenv(name)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that writes a settings file and names it in the environment."""

    def write(text: str) -> Path:
        path = tmp_path / "assayd.toml"
        path.write_text(text)
        monkeypatch.setenv("ASSAYD_CONFIG", str(path))
        return path

    return write
