"""`assay pipeline rollback` undoes a commit and nothing else, whatever happened in between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from assayd.errors import RequestError, StoreError
from assayd_pipeline_commands.commit import CommitResult, apply_result
from assayd_pipeline_commands.journal import SUFFIX, read_journal
from assayd_pipeline_commands.rollback import preview_rollback, roll_back_commit
from support.texts.commits import ID, Killed, everything, make, rows

OTHER = "01JTC8ZK5V0000000000000001"


@pytest.fixture
def shop(real: Path, result: CommitResult) -> Path:
    """Return a database that a result was committed to."""
    apply_result(result, real / "shop.db", real, name="nightly")
    return real / "shop.db"


def is_as_before(real: Path) -> bool:
    gone = not (real / "data/deep/b.csv").exists()
    return rows(real / "shop.db") == [("old",)] and (real / "data/a.csv").read_bytes() == b"old\n" and gone


@pytest.mark.parametrize("reference", [ID, "nightly"])
def test_commit_is_taken_back_and_what_was_there_is_kept(shop: Path, real: Path, reference: str) -> None:
    told = roll_back_commit(reference, shop, real)

    assert is_as_before(real)
    assert rows(real / f"shop.db.{ID}.rolled-back") == [("new",), ("old",)]
    assert (real / f"data/a.csv.{ID}.rolled-back").read_bytes() == b"new\n"
    assert (real / f"data/deep/b.csv.{ID}.rolled-back").read_bytes() == b"made\n"
    assert [line.partition(": ")[2].split(";")[0] for line in told] == ["restored", "restored", "removed"]
    recorded = [(record.action, record.state) for record in read_journal(shop)]
    assert recorded == [("commit", "begun"), ("commit", "done"), ("rollback", "begun"), ("rollback", "done")]


def test_commit_can_be_made_again_after_its_rollback(shop: Path, real: Path, result: CommitResult) -> None:
    roll_back_commit(ID, shop, real)
    apply_result(result, shop, real)
    assert rows(shop) == [("new",), ("old",)]
    roll_back_commit(ID, shop, real)
    assert is_as_before(real)


def test_second_rollback_is_refused(shop: Path, real: Path) -> None:
    roll_back_commit(ID, shop, real)
    with pytest.raises(RequestError, match="is already rolled back"):
        roll_back_commit(ID, shop, real)


def test_database_that_was_changed_since_is_refused_and_says_what_would_be_lost(
    shop: Path, real: Path
) -> None:
    make(shop, "INSERT INTO t VALUES ('later')", "CREATE TABLE u (x)")
    before = everything(real)
    with pytest.raises(RequestError, match="has changed since the commit") as refused:
        roll_back_commit(ID, shop, real)
    assert "table t: 1 to 3 rows, 2 new or changed" in refused.value.message
    assert "table u: new, with 0 rows" in refused.value.message
    assert everything(real) == before


def test_forced_rollback_says_what_is_lost_and_keeps_it_beside(shop: Path, real: Path) -> None:
    make(shop, "INSERT INTO t VALUES ('later')")
    (real / "data/a.csv").write_bytes(b"later\n")
    told = roll_back_commit(ID, shop, real, force=True)

    assert is_as_before(real)
    assert told[-2:] == [
        "  lost: shop.db: table t: 1 to 3 rows, 2 new or changed, 0 removed or changed",
        "  lost: data/a.csv: changes since the commit",
    ]
    assert rows(real / f"shop.db.{ID}.rolled-back") == [("later",), ("new",), ("old",)]
    assert (real / f"data/a.csv.{ID}.rolled-back").read_bytes() == b"later\n"


def test_file_that_was_changed_since_is_refused(shop: Path, real: Path) -> None:
    (real / "data/a.csv").write_bytes(b"later\n")
    before = everything(real)
    with pytest.raises(RequestError, match=r"a\.csv has changed since the commit"):
        roll_back_commit(ID, shop, real)
    assert everything(real) == before


def test_later_commit_has_to_be_taken_back_first(
    shop: Path, real: Path, result: CommitResult, tmp_path: Path
) -> None:
    copy = tmp_path / "next.db"
    copy.write_bytes(shop.read_bytes())
    later = CommitResult(
        attempt_id=OTHER,
        base_files={},
        new_files={},
        base_database=shop.read_bytes(),
        new_database=make(copy, "INSERT INTO t VALUES ('newer')"),
    )
    apply_result(later, shop, None, name="nightly")
    with pytest.raises(RequestError, match=f"roll {OTHER} back first"):
        roll_back_commit(ID, shop, real)

    roll_back_commit("nightly", shop, None)
    assert rows(shop) == [("new",), ("old",)]
    roll_back_commit("nightly", shop, real)
    assert is_as_before(real)


@pytest.mark.parametrize("step", ["begun", "kept", "database", "file"])
def test_rollback_that_was_interrupted_is_completed_by_the_next(shop: Path, real: Path, step: str) -> None:
    def checkpoint(reached: str) -> None:
        if reached == step:
            raise Killed

    with pytest.raises(Killed):
        roll_back_commit(ID, shop, real, checkpoint=checkpoint)
    assert rows(shop) in ([("old",)], [("new",), ("old",)])

    roll_back_commit(ID, shop, real)
    assert is_as_before(real)


@pytest.mark.parametrize("step", ["begun", "backed_up", "database", "file"])
def test_commit_that_was_interrupted_can_be_taken_back(real: Path, result: CommitResult, step: str) -> None:
    def checkpoint(reached: str) -> None:
        if reached == step:
            raise Killed

    with pytest.raises(Killed):
        apply_result(result, real / "shop.db", real, checkpoint)
    roll_back_commit(ID, real / "shop.db", real)
    assert is_as_before(real)


def test_database_that_the_commit_created_is_moved_away(real: Path, result: CommitResult) -> None:
    made = replace(result, base_database=None, new_files={}, base_files={})
    apply_result(made, real / "fresh.db", None)
    assert roll_back_commit(ID, real / "fresh.db", None) == [
        f"{real}/fresh.db: removed; the removed version: fresh.db.{ID}.rolled-back"
    ]
    assert not (real / "fresh.db").exists()


def test_dry_run_tells_and_does_nothing(shop: Path, real: Path) -> None:
    before = everything(real)
    assert preview_rollback(ID, shop, real) == [
        f"{shop}: would be restored",
        f"{real}/data/a.csv: would be restored",
        f"{real}/data/deep/b.csv: would be removed",
    ]
    assert everything(real) == before


def test_what_was_never_committed_is_refused(real: Path) -> None:
    with pytest.raises(RequestError, match="contains no commit of nightly"):
        roll_back_commit("nightly", real / "shop.db", real)


def test_files_need_their_folder(shop: Path) -> None:
    with pytest.raises(RequestError, match="pass the folder with --directory"):
        roll_back_commit(ID, shop, None)


@pytest.mark.parametrize("content", [None, b"another"])
def test_backup_that_is_not_what_was_there_is_refused(shop: Path, real: Path, content: bytes | None) -> None:
    backup = real / f"data/a.csv.{ID}.backup"
    backup.unlink()
    if content is not None:
        backup.write_bytes(content)
    with pytest.raises(RequestError, match=r"the backup .*a\.csv"):
        roll_back_commit(ID, shop, real)
    assert rows(shop) == [("new",), ("old",)]


def test_line_that_a_crash_has_cut_is_no_harm(shop: Path, real: Path) -> None:
    journal = shop.with_name(shop.name + SUFFIX)
    with journal.open("ab") as file:
        file.write(b'{"action": "roll')
    roll_back_commit(ID, shop, real)
    assert is_as_before(real)
    assert len(read_journal(shop)) == 4


def test_journal_that_is_damaged_is_said_to_be(shop: Path, real: Path) -> None:
    shop.with_name(shop.name + SUFFIX).write_bytes(b'{"action": 1}\n')
    with pytest.raises(StoreError, match="damaged") as caught:
        roll_back_commit(ID, shop, real)
    assert caught.value.code == "commit.journal"


def test_journal_cannot_lead_out_of_the_folder(shop: Path, real: Path) -> None:
    journal = shop.with_name(shop.name + SUFFIX)
    journal.write_bytes(journal.read_bytes().replace(b"data/a.csv", b"../a.csv"))
    with pytest.raises(StoreError, match="points outside the folder"):
        roll_back_commit(ID, shop, real)
    assert rows(shop) == [("new",), ("old",)]
