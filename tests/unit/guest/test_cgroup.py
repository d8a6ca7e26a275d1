"""The container's counters, for both cgroup versions."""

from __future__ import annotations

from pathlib import Path

from assayd.guest.processes import Cgroup, Counters


def write(root: Path, files: dict[str, str]) -> Cgroup:
    """Write the files of a control group and read them."""
    for name, content in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content)
    return Cgroup(str(root))


def test_version_one(tmp_path: Path) -> None:
    cgroup = write(tmp_path, {
        "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        "memory/memory.usage_in_bytes": "4096\n",
        "memory/memory.max_usage_in_bytes": "8192\n",
        "pids/pids.events": "max 2\n",
    })  # fmt: skip

    assert cgroup.version == 1
    assert cgroup.read_counters() == Counters(oom_kills=3, pids_refused=2)
    assert (cgroup.memory_bytes(), cgroup.peak_memory_bytes()) == (4096, 8192)


def test_version_two(tmp_path: Path) -> None:
    cgroup = write(tmp_path, {
        "cgroup.controllers": "memory pids\n",
        "memory.events": "low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 0\n",
        "pids.events": "max 2\n",
        "memory.current": "4096\n",
        "memory.peak": "8192\n",
    })  # fmt: skip

    assert cgroup.version == 2
    assert cgroup.read_counters() == Counters(oom_kills=3, pids_refused=2)
    assert (cgroup.memory_bytes(), cgroup.peak_memory_bytes()) == (4096, 8192)


def test_counters_are_read_anew(tmp_path: Path) -> None:
    cgroup = write(tmp_path, {"cgroup.controllers": "", "pids.events": "max 0\n"})
    before = cgroup.read_counters()
    (tmp_path / "pids.events").write_text("max 5\n")

    assert cgroup.read_counters().pids_refused - before.pids_refused == 5


def test_without_control_groups_all_is_zero(tmp_path: Path) -> None:
    cgroup = Cgroup(str(tmp_path))

    assert (cgroup.version, cgroup.read_counters()) == (0, Counters(oom_kills=0, pids_refused=0))
    assert (cgroup.memory_bytes(), cgroup.peak_memory_bytes()) == (0, 0)
