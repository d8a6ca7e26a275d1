"""The documents of an installation: all their links work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LINK = re.compile(r"\]\((?!\w+:)([^)\s#]+)")


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    subprocess.run([sys.executable, ROOT / "deploy/documents.py", folder], check=True)
    return folder


def test_every_link_leads_to_what_was_laid_out(laid_out: Path) -> None:
    pages = sorted(laid_out.rglob("*.md"))
    broken = [
        f"{page.relative_to(laid_out)}: {link}"
        for page in pages
        for link in LINK.findall(page.read_text())
        if not (page.parent / link).resolve().is_relative_to(laid_out) or not (page.parent / link).exists()
    ]
    assert broken == []
    assert len(pages) > 60


def test_pages_stand_where_the_unit_and_the_manual_name_them(laid_out: Path) -> None:
    assert (laid_out / "operating/README.md").is_file()
    assert (laid_out / "CHANGELOG.md").is_file()


def test_sources_that_pages_speak_of_come_along(laid_out: Path) -> None:
    assert (laid_out / "source/daemon/assayd/kind.py").is_file()
    assert (laid_out / "source/tests/plugins/ini/pyproject.toml").is_file()
    assert not list(laid_out.rglob("__pycache__"))
