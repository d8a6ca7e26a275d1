"""The command that builds images where the daemon looks for them, and who removes which containers."""

from functools import partial

import pytest

from assayd.ports.engine import LABEL_EXECUTOR
from assayd.sandbox.container import ContainerOrigin, open_container
from assayd.sandbox.pool import Reaper
from assayd.wiring.execution import format_build_command, owns_containers
from support.engines.warm_pool import IMAGE, A, polite_guest
from support.fakes.engine import FakeEngine


def test_variables_of_the_daemon_are_part_of_the_command() -> None:
    variables = {"DOCKER_HOST": "unix:///run/a b.sock", "ASSAYD_ENGINE__KIND": "docker"}
    command = "ASSAYD_ENGINE__KIND=docker DOCKER_HOST='unix:///run/a b.sock' assay images build"
    assert format_build_command(variables) == command


def test_command_of_a_daemon_with_a_file_of_settings_is_plain() -> None:
    assert format_build_command({}) == "assay images build"


@pytest.mark.parametrize(
    ("executor", "executors", "removed"),
    [("", 2, {"", "2"}), ("", 0, {"", "0", "1", "2"}), ("1", 2, {"1"})],
)
async def test_processes_remove_their_own_containers_and_the_daemon_those_of_former_executors(
    executor: str, executors: int, removed: set[str]
) -> None:
    engine = FakeEngine(polite_guest, images=[IMAGE])
    origins = [ContainerOrigin(daemon_id="d", generation="g", executor=each) for each in ("", "0", "1", "2")]
    for origin in origins:
        await open_container(engine, A, origin, f"ulid-{origin.executor}")
    mine = ContainerOrigin(daemon_id="d", generation="h", executor=executor)
    reaper = Reaper(
        engine=engine,
        daemon_id="d",
        live=frozenset,
        on_gone=lambda _: None,
        owns=partial(owns_containers, mine, executors),
    )

    await reaper.sweep(patient=False)

    left = {each.labels.get(LABEL_EXECUTOR, "") for each in await engine.list_owned("d")}
    assert left == {"", "0", "1", "2"} - removed
    await reaper.create_executor_reaper(0).sweep(patient=False)
    assert "0" not in {each.labels.get(LABEL_EXECUTOR) for each in await engine.list_owned("d")}
