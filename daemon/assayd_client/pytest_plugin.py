"""Implements a pytest plugin that validates code in tests, or runs tests in containers.

    def test_answer_is_right(assayd):
        assert assayd.submit({"kind": "extractor", "payload": {…}}, wait_s=60).verdict == "validated"

    @pytest.mark.assayd(files=["generated.py"])
    def test_generated_code():
        from generated import total
        assert total([1, 2]) == 3

A marked test runs alone in the container's pytest, with its module and the files that the marker lists, but
without conftest files. The result from the container is reported as the test's result.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MARKER = "assayd(files=(), policy='testing', timeout_s=None): run the test in a container of assayd"
WAIT_S = 600.0


class FailedInContainer(Exception):
    """An error for a marked test that failed in its container.

    The error shows the container's output and no traceback.
    """


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `assayd`."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture(scope="session")
def assayd() -> Iterator[Any]:
    """Yield a client of the daemon that the command `assay` would select."""
    from assayd_client import Client

    with Client() as client:
        yield client


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Run the body of a marked test in a container, with the fixtures of the pytest in the container."""
    marker = item.get_closest_marker("assayd")
    if marker is not None and isinstance(item, pytest.Function):
        item.fixturenames.clear()
        item.runtest = lambda: run_in_container(item, **marker.kwargs)  # type: ignore[method-assign]
        item.repr_failure = lambda failure: str(failure.value)  # type: ignore[method-assign,assignment]


def run_in_container(
    item: pytest.Function,
    files: tuple[str, ...] = (),
    policy: str = "testing",
    timeout_s: float | None = None,
) -> None:
    """Run one test in a container. Raises: FailedInContainer; ClientError."""
    from assayd_client import PlainClient

    submission = build_submission(
        item.path, get_node_name(item), item.config.rootpath, files, policy, timeout_s
    )
    with PlainClient() as client:
        attempt = client.submit(submission, wait_s=WAIT_S)
    if attempt["verdict"] != "validated":
        raise FailedInContainer(describe_failure(attempt))


def build_submission(
    module: Path, node: str, root: Path, files: tuple[str, ...], policy: str, timeout_s: float | None
) -> dict[str, object]:
    """Return the submission that runs one test. Paths of `files` are relative to `root`."""
    sources = {name: _encode_content(root / name) for name in files} | {module.name: _encode_content(module)}
    command = ["python3.11", "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-W"]
    warning = "ignore::pytest.PytestUnknownMarkWarning"
    limits = {} if timeout_s is None else {"unit_timeout_s": timeout_s, "timeout_s": timeout_s}
    return {
        "kind": "script",
        "policy": policy,
        "payload": {"argv": [*command, warning, f"{module.name}::{node}"], "files": sources},
        "overrides": {"resources": limits},
        "labels": {"client": "pytest"},
    }


def get_node_name(item: pytest.Function) -> str:
    """Return the part of a test's node id that follows the name of its module."""
    return item.nodeid.partition("::")[2]


def describe_failure(attempt: Any) -> str:
    """Return a printable explanation of the reason why a test didn't pass in its container."""
    findings = attempt["report"]["findings"] if attempt["report"] else []
    execution = attempt["execution"] or {"stdout": "", "stderr": ""}
    printed = execution["stdout"] + execution["stderr"]
    reasons = [finding["message"] for finding in findings] or [(attempt["error"] or {}).get("message", "")]
    return "\n".join([f"attempt {attempt['id']}: {'; '.join(reasons)}", printed.rstrip()])


def _encode_content(path: Path) -> object:
    return {"base64": base64.b64encode(path.read_bytes()).decode()}
