"""The tree of installed modules: always one complete version, and nothing through links."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd_client import module_tree
from assayd_client.module_tree import Candidate, InstallPermissions

NEW = InstallPermissions(new_category=True)
NAME = "weather/open_meteo"


class Killed(Exception):
    """Simulates the end of the process at a checkpoint."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


@pytest.fixture
def module(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that writes a module whose three files contain its version."""

    def write(version: str, name: str = NAME) -> Path:
        folder = tmp_path / f"module-{version}-{name.replace('/', '-')}"
        category, platform = name.split("/")
        manifest = {"module_id": name, "version": version, "category": category, "platform": platform}
        (folder / "data").mkdir(parents=True)
        (folder / "manifest.json").write_text(json.dumps(manifest))
        (folder / "adapter.py").write_text(f"VERSION = {version!r}\n")
        (folder / "data/answer.json").write_text(json.dumps(version))
        return folder

    return write


def attempt_of(candidate: Candidate, number: int = 1, **fields: object) -> dict[str, object]:
    verdict = {"verdict": "validated", "input_digest": candidate.input_digest, "policy": "module_validation"}
    return {"id": f"01A{number:023}", "finished_at": "2026-11-26T10:00:00Z", **verdict, **fields}


def put(
    tree: Path,
    folder: Path,
    number: int = 1,
    allowed: InstallPermissions = NEW,
    checkpoint: Callable[[str], None] = lambda _: None,
) -> str | None:
    candidate = module_tree.read_candidate(folder)
    record = module_tree.build_verdict_record(attempt_of(candidate, number), candidate, datetime.now(UTC))
    return module_tree.install(tree, candidate, record, b"{}", allowed, checkpoint=checkpoint)


def versions(tree: Path) -> set[str]:
    """Return the versions in the installed module's files."""
    place = tree / NAME
    manifest = json.loads((place / "manifest.json").read_text())["version"]
    adapter = (place / "adapter.py").read_text().split("'")[1]
    return {manifest, adapter, json.loads((place / "data/answer.json").read_text())}


def problems(tree: Path) -> list[str]:
    return [problem for each in module_tree.list_installed_modules(tree) for problem in each.problems]


def test_install_writes_files_record_and_attestation(tree: Path, module: Callable[[str], Path]) -> None:
    assert put(tree, module("1.0.0")) is None
    [found] = module_tree.list_installed_modules(tree)
    assert (found.name, found.version, found.kept, found.problems) == (NAME, "1.0.0", None, ())
    assert (tree / NAME / ".assayd/attestation.json").read_bytes() == b"{}"
    assert found.record["attempt_id"] == f"01A{1:023}"


def test_replaced_version_is_kept_and_rollback_exchanges_both(
    tree: Path, module: Callable[[str], Path]
) -> None:
    put(tree, module("1.0.0"))
    assert put(tree, module("1.1.0"), 2) == "1.0.0"
    assert module_tree.roll_back(tree, NAME) == ("1.1.0", "1.0.0")
    assert versions(tree) == {"1.0.0"}
    assert module_tree.roll_back(tree, NAME) == ("1.0.0", "1.1.0")
    assert versions(tree) == {"1.1.0"}


def test_fifty_installs_with_rollbacks_keep_one_whole_version(
    tree: Path, module: Callable[[str], Path]
) -> None:
    for number in range(50):
        put(tree, module(f"1.{number}.0"), number)
        assert versions(tree) == {f"1.{number}.0"}
        if number % 7 == 6:
            module_tree.roll_back(tree, NAME)
            assert versions(tree) == {f"1.{number - 1}.0"}
            module_tree.roll_back(tree, NAME)
    assert entries(tree / ".assayd") == ["kept.weather.open_meteo", "lock"]
    assert problems(tree) == []


def entries(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


STEPS = ("file", "staged", "exchanged", "set aside", "kept", "cleaned")


@pytest.mark.parametrize("step", STEPS)
def test_killed_install_leaves_one_whole_version_and_the_next_one_cleans_up(
    tree: Path, module: Callable[[str], Path], step: str
) -> None:
    put(tree, module("1.0.0"))
    put(tree, module("1.1.0"), 2)
    folder = module("1.2.0")
    child = os.fork()
    if child == 0:
        put(
            tree,
            folder,
            3,
            checkpoint=lambda at: os.kill(os.getpid(), signal.SIGKILL) if at == step else None,
        )
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    was_exchanged = STEPS.index(step) >= STEPS.index("exchanged")
    assert versions(tree) == {"1.2.0" if was_exchanged else "1.1.0"}
    assert problems(tree) == []
    before, after = module_tree.roll_back(tree, NAME)
    assert (before, after) == (("1.2.0", "1.1.0") if was_exchanged else ("1.1.0", "1.0.0"))
    assert entries(tree / ".assayd") == ["kept.weather.open_meteo", "lock"]


def test_failed_write_leaves_the_installed_version(tree: Path, module: Callable[[str], Path]) -> None:
    put(tree, module("1.0.0"))

    def fail(step: str) -> None:
        raise Killed(step)

    with pytest.raises(Killed):
        put(tree, module("1.1.0"), 2, checkpoint=fail)
    assert versions(tree) == {"1.0.0"}
    assert entries(tree / ".assayd") == ["lock"]


def test_older_version_needs_allow_downgrade(tree: Path, module: Callable[[str], Path]) -> None:
    put(tree, module("1.10.0"))
    with pytest.raises(
        RequestError, match=r"1\.9\.0 is older than the installed 1\.10\.0; pass --allow-downgrade"
    ):
        put(tree, module("1.9.0"), 2)
    assert put(tree, module("1.8.0"), 3, InstallPermissions(downgrade=True)) == "1.10.0"


def test_unknown_category_is_refused_with_the_close_one(tree: Path, module: Callable[[str], Path]) -> None:
    (tree / "weather").mkdir()
    with pytest.raises(RequestError, match=r"no category 'wether' \(did you mean weather\?\)"):
        put(tree, module("1.0.0", "wether/open_meteo"), allowed=InstallPermissions())
    assert entries(tree / "weather") == []


@pytest.mark.parametrize("place", ["", "weather", NAME, ".assayd"])
def test_symbolic_link_in_the_tree_is_refused(
    tree: Path, module: Callable[[str], Path], place: str, tmp_path: Path
) -> None:
    put(tree, module("1.0.0"))
    elsewhere = tmp_path / "elsewhere"
    (tree / place).rename(elsewhere)
    (tree / place if place else tree).symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    with pytest.raises(RequestError, match="symbolic link"):
        put(tree, module("1.1.0"), 2)
    assert sorted(elsewhere.rglob("*")) == before


def test_symbolic_link_or_fifo_in_the_module_is_refused(module: Callable[[str], Path]) -> None:
    folder = module("1.0.0")
    (folder / "secret.py").symlink_to("/etc/passwd")
    with pytest.raises(RequestError, match=r"secret\.py is a symbolic link"):
        module_tree.read_candidate(folder)
    (folder / "secret.py").unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(RequestError, match="pipe isn't a regular file"):
        module_tree.read_candidate(folder)


def test_tree_that_all_users_can_write_to_is_refused(tree: Path, module: Callable[[str], Path]) -> None:
    tree.chmod(0o777)
    with pytest.raises(RequestError, match="all users can write"):
        put(tree, module("1.0.0"))


def test_target_of_another_user_is_refused(
    tree: Path, module: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tree, module("1.0.0"))
    monkeypatch.setattr(os, "geteuid", lambda: tree.stat().st_uid + 1)
    with pytest.raises(RequestError, match="belongs to the user with id"):
        put(tree, module("1.1.0"), 2)


def test_folder_that_is_another_module_is_not_replaced(tree: Path, module: Callable[[str], Path]) -> None:
    put(tree, module("1.0.0", "weather/other"))
    (tree / "weather/other").rename(tree / NAME)
    with pytest.raises(RequestError, match="isn't the module weather/open_meteo"):
        put(tree, module("1.1.0"), 2)


def test_module_that_was_put_there_by_hand_is_kept_and_not_restored(
    tree: Path, module: Callable[[str], Path]
) -> None:
    (tree / "weather").mkdir()
    module("1.0.0").rename(tree / NAME)
    assert problems(tree) == ["has no record: it wasn't installed by `assay module install`"]
    assert put(tree, module("1.1.0"), 2) == "1.0.0"
    with pytest.raises(RequestError, match=r"the kept version 1\.0\.0 can't be restored: has no record"):
        module_tree.roll_back(tree, NAME)


def test_kept_version_that_was_changed_is_not_restored(tree: Path, module: Callable[[str], Path]) -> None:
    put(tree, module("1.0.0"))
    put(tree, module("1.1.0"), 2)
    (tree / ".assayd/kept.weather.open_meteo/adapter.py").write_text("VERSION = 'other'\n")
    with pytest.raises(RequestError, match=r"version 1\.0\.0 can't be restored: adapter\.py was changed"):
        module_tree.roll_back(tree, NAME)
    assert versions(tree) == {"1.1.0"}


@pytest.mark.parametrize("place", ["sitecustomize.py", "weather/__init__.py", "_hidden.py"])
def test_file_beside_the_modules_is_found(tree: Path, module: Callable[[str], Path], place: str) -> None:
    put(tree, module("1.0.0"))
    (tree / place).write_text("")
    (tree / "__pycache__").mkdir()
    assert {each.name for each in module_tree.list_installed_modules(tree)} == {NAME, place}
    assert problems(tree) == ["was added: it isn't the folder of a module"]


def test_module_whose_folder_begins_with_an_underscore_is_found(
    tree: Path, module: Callable[[str], Path]
) -> None:
    put(tree, module("1.0.0"))
    (tree / NAME).rename(tree / "weather/_other")
    assert problems(tree) == ["is the module weather/open_meteo"]


def test_attestations_are_kept_only_if_they_are_asked_for(tree: Path, module: Callable[[str], Path]) -> None:
    put(tree, module("1.0.0"))
    [plain], [attested] = (
        module_tree.list_installed_modules(tree, attestations=asked) for asked in (False, True)
    )
    assert (plain.attestation, attested.attestation) == (None, b"{}")


def test_changed_added_and_missing_files_are_found(tree: Path, module: Callable[[str], Path]) -> None:
    put(tree, module("1.0.0"))
    (tree / NAME / "adapter.py").write_text("VERSION = 'other'\n")
    (tree / NAME / "extra.py").write_text("")
    (tree / NAME / "data/answer.json").unlink()
    assert problems(tree) == ["data/answer.json is missing", "extra.py was added", "adapter.py was changed"]


def test_verdict_on_other_files_is_refused(module: Callable[[str], Path]) -> None:
    candidate, other = (module_tree.read_candidate(module(version)) for version in ("1.0.0", "1.0.1"))
    with pytest.raises(RequestError, match="didn't validate these files"):
        module_tree.build_verdict_record(attempt_of(other), candidate, datetime.now(UTC))


def test_verdict_of_a_report_only_profile_is_refused(module: Callable[[str], Path]) -> None:
    candidate = module_tree.read_candidate(module("1.0.0"))
    with pytest.raises(RequestError, match="report"):
        module_tree.build_verdict_record(
            attempt_of(candidate, approvable=False), candidate, datetime.now(UTC)
        )


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("../etc", "is not CATEGORY/PLATFORM"),
        ("weather/openmeteo", r"isn't installed in .* \(did you mean weather/open_meteo\?\)"),
        (NAME, "no earlier version is kept"),
    ],
)
def test_rollback_names_what_is_wrong(
    tree: Path, module: Callable[[str], Path], name: str, told: str
) -> None:
    put(tree, module("1.0.0"))
    with pytest.raises(RequestError, match=told):
        module_tree.roll_back(tree, name)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("module_id", "weather/other", "module_id is 'weather/other', category and platform say"),
        ("category", "../up", "category and platform must be lowercase words"),
        ("category", "_weather", "that don't begin with _"),
        ("platform", "_open_meteo", "that don't begin with _"),
        ("version", "1.0", "version like 1.0.0"),
    ],
)
def test_manifest_that_does_not_fit_is_refused(
    module: Callable[[str], Path], field: str, value: str, told: str
) -> None:
    folder = module("1.0.0")
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, field: value}))
    with pytest.raises(RequestError, match=told):
        module_tree.read_candidate(folder)


def test_second_installation_at_the_same_time_is_refused(tree: Path, module: Callable[[str], Path]) -> None:
    first, second = module("1.0.0"), module("1.1.0")
    refused = []

    def install_another(step: str) -> None:
        if step == "staged":
            with pytest.raises(RequestError, match="another install or rollback") as error:
                put(tree, second, 2)
            refused.append(error.value)

    put(tree, first, checkpoint=install_another)
    assert len(refused) == 1
    assert versions(tree) == {"1.0.0"}
