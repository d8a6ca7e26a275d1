"""What an unprivileged user needs for containers, and the messages if something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from assayd.engines.oci.host import (
    IDS_PER_BLOCK,
    ROOT_ID_RANGE,
    DaemonUser,
    IdAllocator,
    IdRange,
    find_common_ids,
    find_mount_folder,
    find_subordinate_ids,
)
from assayd.errors import EngineError

ALICE = DaemonUser(uid=1000, name="alice")
RANGE = IdRange(first=100_000, count=65536)


@pytest.fixture
def able(tmp_path: Path) -> Path:
    """Return the root folder of a system with everything that is needed."""
    given = "bob:165536:65536\nalice:100000:65536\n"
    files = {
        "etc/subuid": given,
        "etc/subgid": given,
        "usr/bin/newuidmap": "",
        "usr/bin/newgidmap": "",
        "sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n",
        "proc/sys/user/max_user_namespaces": "15000\n",
        "proc/sys/kernel/unprivileged_userns_clone": "1\n",
        "proc/self/status": "Name:\tassayd\nNoNewPrivs:\t0\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_user_with_all_that_is_needed_has_the_ids_of_their_own_lines(able: Path) -> None:
    assert find_subordinate_ids(ALICE, able) == RANGE


def test_ids_may_be_given_to_a_number_and_odd_lines_are_passed_over(able: Path) -> None:
    for name in ("subuid", "subgid"):
        (able / "etc" / name).write_text("# alice:1:2\n\nalice:x:65536\nalice:1\n1000:100000:65536\n")
    assert find_subordinate_ids(ALICE, able) == RANGE


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("etc/subuid", "bob:165536:65536\n", "share 0 ids.*usermod --add-subuids.* alice"),
        ("etc/subgid", "alice:100000:63\n", "share 63 ids; at least 64"),
        ("usr/bin/newgidmap", None, "missing: /usr/bin/newgidmap .*apt-get install uidmap"),
        ("sys/fs/cgroup/cgroup.controllers", None, "cgroup v1 .*unified_cgroup_hierarchy=1"),
        ("proc/sys/user/max_user_namespaces", "0\n", "switched off .*user.max_user_namespaces=15000"),
        ("proc/sys/kernel/unprivileged_userns_clone", "0\n", "kernel.unprivileged_userns_clone=1"),
        ("proc/self/status", "NoNewPrivs:\t1\n", "no_new_privs.*NoNewPrivileges="),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(able: Path, file: str, text: str | None, said: str) -> None:
    if text is None:
        (able / file).unlink()
    else:
        (able / file).write_text(text)
    with pytest.raises(EngineError, match=f"unprivileged user alice here: .*{said}") as caught:
        find_subordinate_ids(ALICE, able)
    assert caught.value.code == "engine.rights"


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        find_subordinate_ids(ALICE, tmp_path)
    assert [word in caught.value.message for word in ("cgroup v1", "newuidmap", "subuid")] == [True] * 3


@pytest.mark.parametrize(
    ("users", "groups", "common"),
    [
        ([RANGE], [RANGE], RANGE),
        ([RANGE], [IdRange(first=150_000, count=65536)], IdRange(first=150_000, count=15536)),
        ([RANGE], [IdRange(first=300_000, count=65536)], IdRange(first=0, count=0)),
        ([IdRange(first=1, count=10), RANGE], [IdRange(first=1, count=10), RANGE], RANGE),
        ([], [RANGE], IdRange(first=0, count=0)),
    ],
)
def test_ids_are_those_that_are_users_and_groups(
    users: list[IdRange], groups: list[IdRange], common: IdRange
) -> None:
    assert find_common_ids(users, groups) == common


def test_images_are_shown_where_nothing_is_hidden_by_it() -> None:
    assert find_mount_folder([Path("/home/alice")]) == "/mnt"
    assert find_mount_folder([Path("/mnt/disk/alice")]) != "/mnt"


def test_containers_have_two_ids_each_and_get_those_that_came_back(tmp_path: Path) -> None:
    ranges = IdAllocator(tmp_path)
    first, second = ranges.allocate(), ranges.allocate()
    assert (first, second) == (ROOT_ID_RANGE.first, ROOT_ID_RANGE.first + 2)
    ranges.release(first)
    assert ranges.allocate() == first
    ranges.close()


def test_template_has_ids_one_after_the_other_and_leaves_gaps_to_containers(tmp_path: Path) -> None:
    ranges = IdAllocator(tmp_path)
    taken = [ranges.allocate(), ranges.allocate(128), ranges.allocate(), ranges.allocate(128)]
    assert taken == [ROOT_ID_RANGE.first + number for number in (0, 2, 130, 132)]
    ranges.release(taken[1])
    assert [ranges.allocate(), ranges.allocate(127), ranges.allocate(126)] == [
        ROOT_ID_RANGE.first + n for n in (2, 260, 4)
    ]
    ranges.close()


def test_two_engines_have_blocks_of_their_own(tmp_path: Path) -> None:
    one, other = IdAllocator(tmp_path), IdAllocator(tmp_path)
    assert abs(one.allocate() - other.allocate()) >= IDS_PER_BLOCK
    one.close()
    other.close()


def test_block_of_an_engine_that_has_ended_is_used_again(tmp_path: Path) -> None:
    one = IdAllocator(tmp_path)
    first = one.allocate()
    one.close()
    other = IdAllocator(tmp_path)
    assert other.allocate() == first
    other.close()


def test_engine_without_a_block_is_refused(tmp_path: Path) -> None:
    one, other = (IdAllocator(tmp_path, IdRange(first=100_000, count=IDS_PER_BLOCK + 1)) for _ in range(2))
    one.allocate()
    with pytest.raises(EngineError) as caught:
        other.allocate()
    assert caught.value.code == "engine.no_ids"
    one.close()


def test_block_that_is_used_up_is_refused(tmp_path: Path) -> None:
    ranges = IdAllocator(tmp_path)
    taken = {ranges.allocate() for _ in range(IDS_PER_BLOCK // 2)}
    with pytest.raises(EngineError, match="all 4096 user ids"):
        ranges.allocate()
    assert max(taken) + 1 < ROOT_ID_RANGE.first + IDS_PER_BLOCK
    ranges.close()


def test_ids_that_are_fewer_than_a_block_are_one(tmp_path: Path) -> None:
    ranges = IdAllocator(tmp_path, IdRange(first=100_000, count=5))
    assert [ranges.allocate(), ranges.allocate()] == [100_000, 100_002]
    with pytest.raises(EngineError, match="all 5 user ids"):
        ranges.allocate()
    ranges.close()
