"""The files for the repository's host: workflows, issue forms, dependency updates."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / ".github").rglob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_file_is_yaml_with_content(file: Path) -> None:
    assert yaml.safe_load(file.read_text())


def test_workflows_call_targets_that_exist() -> None:
    steps = [
        step["run"]
        for file in FILES
        if file.parent.name == "workflows"
        for job in yaml.safe_load(file.read_text())["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    called = {
        target
        for step in steps
        for line in re.findall(r"\bmake ((?:[a-z-]+ ?)+)", step)
        for target in line.split()
    }

    assert {"check", "test", "release"} <= called
    assert called <= TARGETS


def test_hooks_of_the_project_call_programs_of_its_environment() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    entries = [hook["entry"] for repository in config["repos"] for hook in repository["hooks"]]

    assert entries
    assert {entry.partition(" ")[0] for entry in entries} <= {
        f".venv/bin/{name}" for name in ("ruff", "lint-imports", "mypy", "pytest")
    }
