"""Wheels: chosen once by pip from an index, locked by their hashes, and installed by hash only."""

from __future__ import annotations

from pathlib import Path

import pytest

from assayd.errors import ConfigError
from assayd.imaging.wheels import SITE, install_wheels, lock_wheels, read_lock
from support.texts.wheels import make_index, make_wheel

REQUIRED = ("shout>=1",)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make pip use a single index on this disk, without a cache."""
    for name, value in {"INDEX_URL": make_index(tmp_path / "index"), "NO_CACHE_DIR": "1"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return tmp_path / "index"


@pytest.mark.slow
def test_lock_has_what_is_required_with_hashes_and_is_what_is_installed(index: Path, tmp_path: Path) -> None:
    path = tmp_path / "reports.lock"

    assert lock_wheels(REQUIRED, "3.11", path) == 2
    lock = path.read_text()
    assert "shout==1.2 \\\n    --hash=sha256:" in lock
    assert "whisper==2.5 \\\n    --hash=sha256:" in lock
    assert str(index) not in lock

    install_wheels(read_lock(path), REQUIRED, "3.11", tmp_path / "root")
    site = tmp_path / "root" / SITE
    assert (site / "shout.py").is_file()
    assert (site / "whisper/__init__.py").is_file()
    assert not (site / "bin").exists()


@pytest.mark.slow
def test_wheel_that_was_changed_since_is_refused_with_both_hashes(index: Path, tmp_path: Path) -> None:
    path = tmp_path / "reports.lock"
    lock_wheels(REQUIRED, "3.11", path)
    make_wheel(index / "whisper", "whisper", "2.5", {"whisper/__init__.py": b"import os\n"})

    with pytest.raises(ConfigError) as raised:
        install_wheels(read_lock(path), REQUIRED, "3.11", tmp_path / "root")

    assert raised.value.code == "image.wheel_differs"
    assert "reports.lock: whisper==2.5 differs from the locked wheel: sha256 " in raised.value.message


@pytest.mark.usefixtures("index")
def test_requirement_that_no_wheel_meets_is_told_in_pips_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        lock_wheels(("shout>=9",), "3.11", tmp_path / "a.lock")

    assert raised.value.code == "image.wheels_failed"
    assert "shout>=9" in raised.value.message
    assert not (tmp_path / "a.lock").exists()


def test_lock_that_is_missing_or_of_another_recipe_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "reports.lock"
    with pytest.raises(ConfigError) as raised:
        install_wheels(read_lock(path), REQUIRED, "3.11", tmp_path)
    assert (raised.value.code, "assay images lock reports" in raised.value.message) == (
        "image.lock_missing", True,
    )  # fmt: skip

    path.write_text("# required: sha256:0\n")
    with pytest.raises(ConfigError) as raised:
        install_wheels(read_lock(path), REQUIRED, "3.11", tmp_path)
    assert (raised.value.code, "assay images lock reports" in raised.value.message) == (
        "image.lock_outdated", True,
    )  # fmt: skip
