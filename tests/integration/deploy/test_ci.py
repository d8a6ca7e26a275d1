"""The hooks and build server jobs, run against an in-memory daemon."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.daemons.fake_service import FakeService
from support.daemons.server import serving

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(sys.executable).parent
HOOKS = ".pre-commit-hooks.yaml"
TOML = '[[file]]\nmatch = "*.py"\nkind = "extractor"\nsample_paths = ["/a"]\n'


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def environ(service: FakeService, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return an environment with `assay` and a daemon's socket."""
    with serving(service, tmp_path / "s") as socket:
        usual = {name: os.environ[name] for name in ("PYTHONPATH", "LANG") if name in os.environ}
        path = f"{BIN}:{os.environ['PATH']}"
        yield {
            **usual,
            "PATH": path,
            "HOME": str(tmp_path),
            "ASSAY_SOCKET": str(socket),
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "PRE_COMMIT_HOME": str(tmp_path / "cache"),
        }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".assay.toml").write_text(TOML)
    (folder / "x.py").write_text("a = 1\n")
    return folder


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(("outcome", "code"), [("validated", 0), ("refused", 1)])
def test_hook_of_pre_commit_lets_validated_files_pass_alone(
    environ, service, project, tmp_path, outcome, code
) -> None:
    service.outcome = outcome
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    shutil.copy(ROOT / HOOKS, hooks)
    for folder in (hooks, project):
        git(folder, "init", "--quiet")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", "x")
    repo = {"repo": str(hooks), "rev": git(hooks, "rev-parse", "HEAD"), "hooks": [{"id": "assay-check"}]}
    (project / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [repo]}))
    git(project, "add", ".")

    command = [BIN / "pre-commit", "run", "--all-files"]
    done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)

    assert done.returncode == code, done.stdout + done.stderr
    assert len(service.submissions) == 1
    assert ("failed" in done.stdout.lower()) == (code == 1)


@pytest.mark.parametrize(("outcome", "code"), [("validated", 0), ("failed_at_run", 1)])
def test_steps_of_the_github_action_write_both_reports(
    environ, service, project, tmp_path, outcome, code
) -> None:
    service.outcome = outcome
    action = yaml.safe_load((ROOT / "deploy/ci/github/action.yml").read_text())
    inputs = {
        "FILES": action["inputs"]["files"]["default"],
        "PACKAGE": action["inputs"]["package"]["default"],
    }

    codes = [
        subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=project,
            env={**environ, **inputs},
            check=False,
        ).returncode
        for step in action["runs"]["steps"]
    ]

    assert codes == [0, code]
    outputs = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    assert set(outputs) == set(action["outputs"])
    assert len(json.loads(Path(outputs["sarif"]).read_text())["runs"]) == 1
    assert Path(outputs["junit"]).read_text().count("<testcase") == 1


def test_script_of_the_gitlab_job_writes_what_it_keeps(environ, project) -> None:
    job = yaml.safe_load((ROOT / "deploy/ci/gitlab/assay.gitlab-ci.yml").read_text())["assay-check"]
    environ["ASSAY_FILES"] = "x.py"

    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(job["script"])], cwd=project, env=environ, check=False
    )

    assert done.returncode == 0
    kept = [*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]]
    assert all((project / name).stat().st_size for name in kept)
