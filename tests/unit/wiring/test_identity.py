from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from assayd.clock import UlidGenerator
from assayd.errors import ConfigError
from assayd.wiring.identity import FILE, acknowledge_copy, determine_identity


def test_identity_stays_from_one_start_to_the_next(tmp_path: Path) -> None:
    first = determine_identity(tmp_path, UlidGenerator())

    assert determine_identity(tmp_path, UlidGenerator()) == first


def test_identity_goes_with_a_directory_that_is_renamed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    first = determine_identity(tmp_path / "a", UlidGenerator())
    (tmp_path / "a").rename(tmp_path / "b")

    assert determine_identity(tmp_path / "b", UlidGenerator()) == first


def test_copy_of_a_directory_takes_an_identity_of_its_own_and_says_whose_copy_it_is(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    live = determine_identity(tmp_path / "live", UlidGenerator())
    shutil.copytree(tmp_path / "live", tmp_path / "copy")

    copy = determine_identity(tmp_path / "copy", UlidGenerator())

    assert copy.daemon_id != live.daemon_id
    assert copy.copied_from == live.daemon_id
    assert determine_identity(tmp_path / "copy", UlidGenerator()) == copy, "it is said at every start"
    assert determine_identity(tmp_path / "live", UlidGenerator()) == live

    assert acknowledge_copy(tmp_path / "copy") == live.daemon_id
    assert determine_identity(tmp_path / "copy", UlidGenerator()) == replace(copy, copied_from=None)
    assert acknowledge_copy(tmp_path / "copy") is None


def test_copy_of_a_copy_says_which_it_was_made_of(tmp_path: Path) -> None:
    for name, of in (("a", None), ("b", "a"), ("c", "b")):
        if of is None:
            (tmp_path / name).mkdir()
        else:
            shutil.copytree(tmp_path / of, tmp_path / name)
        determine_identity(tmp_path / name, UlidGenerator())

    last, middle = (determine_identity(tmp_path / name, UlidGenerator()) for name in "cb")
    assert last.copied_from == middle.daemon_id


def test_directory_without_an_identity_cannot_be_acknowledged(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=FILE):
        acknowledge_copy(tmp_path)


def test_identity_from_before_places_were_recorded_is_kept(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("01JTC8ZK5V7777777777777777")

    assert determine_identity(tmp_path, UlidGenerator()).daemon_id == "01JTC8ZK5V7777777777777777"
    assert len((tmp_path / FILE).read_text().split()) == 2


def test_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"\xff\xfe")

    with pytest.raises(ConfigError, match=FILE):
        determine_identity(tmp_path, UlidGenerator())
