"""What `assayd --check-config` refuses before a daemon is started with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from assayd.errors import ConfigError
from assayd.model.health import HealthStatus
from assayd.settings import Settings
from assayd.wiring.profiles import check_settings, find_missing_policies, load_profiles
from support.daemons.small_daemon import How, SmallKind, small_daemon


class Homeless(SmallKind):
    """A kind of a package whose policy nobody has installed."""

    name = "homeless"
    default_policy = "absent"


@pytest.mark.parametrize("below", ["", "new", "new/folders"])
def test_state_directory_that_can_be_made_is_fine(tmp_path: Path, below: str) -> None:
    check_settings(Settings(state_dir=tmp_path / below, policy_folders=()))


def test_state_directory_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file isn't a folder"):
        check_settings(Settings(state_dir=tmp_path / "file" / "state", policy_folders=()))


def test_state_directory_where_not_even_root_can_make_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="/proc isn't a folder that this user may write to"):
        check_settings(Settings(state_dir=Path("/proc/nothere/state"), policy_folders=()))


def test_kind_without_its_policy_is_named_with_it() -> None:
    policies = load_profiles(Settings(policy_folders=()))
    assert find_missing_policies({"homeless": Homeless(), "small": SmallKind()}, policies) == {
        "homeless": "absent"
    }


async def test_kind_without_its_policy_keeps_no_other_from_being_served(tmp_path: Path) -> None:
    """The daemon ended at its start, and was started again and again."""
    how = How(kinds=lambda: {"homeless": Homeless(), "small": SmallKind()})
    async with small_daemon(tmp_path, how) as daemon:
        assert set(daemon.kinds) == {"small"}
        finished = await daemon.finished(await daemon.accept())
        [row] = [row for row in await daemon.service.health() if row.check == "kinds"]
    assert finished.verdict == "validated"
    assert (row.status, row.detail) == (HealthStatus.FAIL, "homeless isn't served: no policy absent")
