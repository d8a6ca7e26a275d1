"""The choice of the runtime, and its arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from assayd.engines.oci.host import OciRuntime, find_runtime
from assayd.errors import EngineError


def program(path: Path, says: str) -> str:
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return str(path)


def test_first_runtime_that_is_there_is_taken_with_its_version(tmp_path: Path) -> None:
    runc = program(tmp_path / "runc", "echo runc version 1.1.5+ds1; echo spec: 1.0.2")
    found = find_runtime([("crun", str(tmp_path / "crun")), ("runc", runc)])
    assert found == OciRuntime(name="runc", path=runc, version="1.1.5+ds1")


def test_host_without_a_runtime_is_told_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="apt-get install crun") as caught:
        find_runtime([("crun", str(tmp_path / "crun"))])
    assert caught.value.code == "engine.runtime"


@pytest.mark.parametrize("says", ["exit 1", "echo something else"])
def test_program_that_is_no_runtime_is_refused(tmp_path: Path, says: str) -> None:
    with pytest.raises(EngineError, match="doesn't report its version"):
        find_runtime([("crun", program(tmp_path / "crun", says))])


def test_crun_leaves_control_groups_alone_and_keeps_all_in_the_containers_folder() -> None:
    arguments = OciRuntime(name="crun", path="/usr/bin/crun", version="1").arguments(Path("/run/c"), "ULID")
    assert arguments[0] == "/usr/bin/crun"
    assert "--cgroup-manager=disabled" in arguments
    assert {"--root=/run/c/state", "--bundle=/run/c", "--pid-file=/run/c/pid", "--detach"} <= set(arguments)
    assert arguments[-1] == "ULID"
