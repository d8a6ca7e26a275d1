"""Which engine the settings mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from assayd.engines.docker import DockerEngine
from assayd.engines.oci import OciEngine
from assayd.engines.oci.host import find_host
from assayd.errors import EngineError
from assayd.settings import Settings
from assayd.settings.model import EngineSettings
from assayd.wiring.engine import choose_engine


def settings(tmp_path: Path, **engine: object) -> Settings:
    return Settings(state_dir=tmp_path, engine=EngineSettings(run_dir=tmp_path / "run", **engine))


@pytest.mark.parametrize(("kind", "made"), [("docker", DockerEngine), ("oci", OciEngine)])
async def test_engine_that_is_named_is_taken_whether_or_not_it_answers(
    tmp_path: Path, kind: str, made: type
) -> None:
    chosen = await choose_engine(settings(tmp_path, kind=kind, url=f"unix://{tmp_path}/absent"))
    assert isinstance(chosen.engine, made)
    assert (chosen.kind, chosen.reason) == (kind, "set by engine.kind")
    await chosen.engine.close()


@pytest.mark.parametrize("by_setting", [True, False])
async def test_docker_whose_address_is_given_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_setting: bool
) -> None:
    address = f"unix://{tmp_path}/absent"
    monkeypatch.setenv("DOCKER_HOST", "" if by_setting else address)
    chosen = await choose_engine(settings(tmp_path, url=address if by_setting else None))
    assert (chosen.kind, chosen.reason) == ("docker", "its address is set")
    assert bool(chosen.note) == _does_without_docker()
    await chosen.engine.close()


def _does_without_docker() -> bool:
    try:
        find_host()
    except EngineError:
        return False
    return True
