"""Control groups in test folders: which files are written and read."""

from __future__ import annotations

from pathlib import Path

import pytest

from assayd.engines.oci import cgroup
from assayd.engines.oci.cgroup import DAEMON_GROUP, ControlGroup, find_hierarchy
from assayd.errors import EngineError

LIMITS = {
    "memory_bytes": 96 * 2**20,
    "pids": 16,
    "cpu_quota_us": 50_000,
    "cpu_period_us": 100_000,
    "cpu_weight": 25,
}
FILES = {
    1: {
        "memory": (
            "memory.limit_in_bytes",
            "memory.memsw.limit_in_bytes",
            "memory.swappiness",
            "memory.oom_control",
        ),
        "pids": ("pids.max", "pids.events"),
        "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares"),
    },
    2: {
        "": (
            "memory.max",
            "memory.swap.max",
            "memory.oom.group",
            "memory.events",
            "pids.max",
            "cpu.max",
            "cpu.weight",
        )
    },
}


def made(root: Path, version: int) -> ControlGroup:
    """Return a group whose files exist, as the kernel creates them."""
    folders = {}
    for controller, files in FILES[version].items():
        folder = root / (controller or "unified") / "assayd-1"
        folder.mkdir(parents=True)
        for name in (*files, "cgroup.procs"):
            (folder / name).write_text("")
        folders[controller] = str(folder)
    return ControlGroup(version=version, folders=folders)


def write(group: ControlGroup) -> None:
    for path, value in group._iter_limit_files(LIMITS):
        Path(path).write_text(value)


@pytest.mark.parametrize("version", [1, 2])
def test_group_with_its_limits_has_no_differences(tmp_path: Path, version: int) -> None:
    group = made(tmp_path, version)
    write(group)
    assert group.differences(LIMITS) == []


@pytest.mark.parametrize(("version", "swap"), [(1, "memory.memsw.limit_in_bytes"), (2, "memory.swap.max")])
def test_swap_that_is_left_open_is_a_difference(tmp_path: Path, version: int, swap: str) -> None:
    group = made(tmp_path, version)
    write(group)
    (Path(group.folders["memory" if version == 1 else ""]) / swap).write_text("max\n")
    [difference] = group.differences(LIMITS)
    assert difference.startswith(f"{swap} is 'max'")


@pytest.mark.parametrize("version", [1, 2])
def test_limit_that_cannot_be_read_is_a_difference(tmp_path: Path, version: int) -> None:
    group = made(tmp_path, version)
    write(group)
    (Path(group.folders["pids" if version == 1 else ""]) / "pids.max").unlink()
    assert group.differences(LIMITS) == ["pids.max is 'unreadable', expected '16'"]


@pytest.mark.parametrize(("version", "name", "held"), [(1, "cpu.shares", "256"), (2, "cpu.weight", "25")])
def test_container_weighs_a_quarter_of_the_daemon(tmp_path: Path, version: int, name: str, held: str) -> None:
    settings = {Path(path).name: value for path, value in made(tmp_path, version)._iter_limit_files(LIMITS)}
    assert settings[name] == held


@pytest.mark.parametrize(("version", "name", "held"), [(1, "cpu.shares", "30"), (2, "cpu.weight", "3")])
def test_weight_is_changed_while_there_is_a_group(tmp_path: Path, version: int, name: str, held: str) -> None:
    group = made(tmp_path, version)
    file = Path(group.folders["cpu" if version == 1 else ""]) / name
    group.set_cpu_weight(3)
    assert file.read_text() == held
    file.unlink()
    group.set_cpu_weight(3)
    assert not file.exists()


def test_group_of_version_2_lets_the_kernel_choose_one_process(tmp_path: Path) -> None:
    assert ("memory.oom.group", "0") in [
        (Path(path).name, value) for path, value in made(tmp_path, 2)._iter_limit_files(LIMITS)
    ]


@pytest.mark.parametrize(("version", "file"), [(1, "memory.oom_control"), (2, "memory.events")])
def test_kills_for_memory_are_counted(tmp_path: Path, version: int, file: str) -> None:
    group = made(tmp_path, version)
    folder = Path(group.folders["memory" if version == 1 else ""])
    (folder / file).write_text("under_oom 0\noom_kill 3\noom_kill_disable 0\n")
    assert group.oom_kills() == 3


@pytest.mark.parametrize(("version", "name"), [(1, "tasks"), (2, "cgroup.procs")])
def test_group_is_joined_where_the_kernel_need_not_wait_for_all_others(
    tmp_path: Path, version: int, name: str
) -> None:
    group = made(tmp_path, version)
    assert group.entries() == [f"{folder}/{name}" for folder in group.folders.values()]
    (Path(next(iter(group.folders.values()))) / "cgroup.procs").write_text("4711\n")
    assert group.pids() == [4711]


def test_evidence_of_a_group_that_is_gone_is_none(tmp_path: Path) -> None:
    group = ControlGroup(version=2, folders={"": str(tmp_path / "gone")})
    assert (group.oom_kills(), group.pids_refused(), group.peak_memory_bytes(), group.pids()) == (0, 0, 0, [])


def test_group_that_cannot_be_limited_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    folders = {name: str(tmp_path / name) for name in ("memory", "pids", "cpu")}
    with pytest.raises(EngineError) as caught:  # no kernel makes its files here
        ControlGroup(version=1, folders=folders).make(LIMITS)
    assert caught.value.code == "engine.cgroup"
    assert list(tmp_path.iterdir()) == []


def test_removal_of_a_group_that_is_gone_is_fine(tmp_path: Path) -> None:
    ControlGroup(version=2, folders={"": str(tmp_path / "gone")}).remove()
    assert list(tmp_path.iterdir()) == []


def controllers(root: Path, *names: str) -> None:
    for name in names:
        (root / name).mkdir()
        (root / name / "cgroup.procs").write_text("")


def test_groups_of_version_1_are_below_the_daemons_own(tmp_path: Path) -> None:
    controllers(tmp_path, "memory", "pids", "cpu")
    (tmp_path / "memory/service").mkdir()
    found = find_hierarchy("9:memory:/service\n8:pids:/elsewhere\n3:cpu,cpuacct:/\n0::/\n", tmp_path)
    assert found.version == 1
    assert found.folders["memory"] == tmp_path / "memory/service"
    assert found.folders["pids"] == tmp_path / "pids"  # its path is not to be seen from here


def test_other_hierarchies_in_which_a_runtime_may_make_groups_are_known(tmp_path: Path) -> None:
    controllers(tmp_path, "memory", "pids", "cpu", "freezer", "systemd", "unified")
    text = "6:freezer:/\n9:name=systemd:/\n4:memory:/\n0::/\n"
    found = find_hierarchy(text, tmp_path)
    assert found.others == (tmp_path / "freezer", tmp_path / "systemd", tmp_path / "unified")
    assert found.group("a").others[0] == str(tmp_path / "freezer/a")


def test_controller_that_is_not_mounted_is_named(tmp_path: Path) -> None:
    controllers(tmp_path, "memory", "cpu")
    with pytest.raises(EngineError, match="'pids' isn't mounted"):
        find_hierarchy("9:memory:/\n", tmp_path)


def unified(base: Path, controllers: str) -> None:
    base.mkdir(parents=True, exist_ok=True)
    (base / "cgroup.controllers").write_text("cpu memory pids")
    (base / "cgroup.procs").write_text("")
    (base / "cgroup.subtree_control").write_text(controllers)


def test_group_of_version_2_whose_controllers_are_handed_on_is_used(tmp_path: Path) -> None:
    unified(tmp_path, "")
    unified(tmp_path / "unit", "memory pids cpu")
    found = find_hierarchy("0::/unit\n", tmp_path)
    assert (found.version, found.folders) == (2, {"": tmp_path / "unit"})
    assert (tmp_path / "unit" / DAEMON_GROUP).is_dir()


def test_daemon_that_has_moved_itself_uses_the_group_above(tmp_path: Path) -> None:
    unified(tmp_path, "")
    unified(tmp_path / "unit", "memory pids cpu")
    found = find_hierarchy(f"0::/unit/{DAEMON_GROUP}\n", tmp_path)
    assert found.folders == {"": tmp_path / "unit"}


def test_processes_that_end_or_start_while_they_are_moved_keep_nobody_from_handing_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unified(tmp_path, "")
    unified(tmp_path / "unit", "memory pids cpu")
    members = tmp_path / "unit/cgroup.procs"
    members.write_text("10\n20\n")
    moved = []

    def move(path: str, pid: str) -> None:
        assert path == f"{tmp_path}/unit/{DAEMON_GROUP}/cgroup.procs"
        if pid == "10":
            raise ProcessLookupError
        members.write_text("30\n" if pid == "20" else "")
        moved.append(pid)

    monkeypatch.setattr(cgroup, "_write_control", move)
    find_hierarchy("0::/unit\n", tmp_path)
    assert (moved, members.read_text()) == (["20", "30"], "")


def test_group_that_was_not_delegated_is_refused_with_the_remedy(tmp_path: Path) -> None:
    unified(tmp_path, "")
    (tmp_path / "unit").mkdir()
    with pytest.raises(EngineError, match="Delegate=yes"):
        find_hierarchy("0::/unit\n", tmp_path)


def test_controllers_that_were_not_handed_on_are_named(tmp_path: Path) -> None:
    unified(tmp_path, "")
    unified(tmp_path / "unit", "")
    (tmp_path / "unit/cgroup.controllers").write_text("memory\n")
    with pytest.raises(EngineError, match="no controller pids and no cpu, only memory; "):
        find_hierarchy("0::/unit\n", tmp_path)
