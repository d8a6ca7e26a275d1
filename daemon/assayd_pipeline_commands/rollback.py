"""Undoes a commit by restoring the previous database and files.

Unless forced, the rollback restores only objects that haven't changed since the commit. The current content
is always kept as a backup. If a rollback was interrupted, repeating it completes the remaining steps.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from assayd_client.cli.terminal import plain
from assayd_pipeline_commands.journal import (
    COMMIT,
    DONE,
    ROLLBACK,
    STATE_BEGUN,
    Checkpoint,
    JournalRecord,
    ReplacedObject,
    build_auxiliary_path,
    build_refusal_error,
    compute_content_digest,
    compute_digest,
    describe_differences,
    describe_hidden_file,
    lock_database,
    open_in_memory,
    open_journal,
    read_if_exists,
    read_journal,
    rename_durably,
    resolve_inside_folder,
    translate_errors,
    write_atomically,
)

KEPT = "rolled-back"


@dataclass(frozen=True, slots=True, kw_only=True)
class _RestoreStep:
    """An object to restore, with its location, former content and current content (None if missing)."""

    path: Path
    name: str
    before: bytes | None
    current: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _RollbackPlan:
    """The remaining steps of a rollback. `lost` describes later changes that the rollback would remove."""

    record: JournalRecord
    connection: sqlite3.Connection | None
    database: _RestoreStep | None
    files: Sequence[_RestoreStep]
    lost: Sequence[str]


def roll_back_commit(
    reference: str,
    database: Path,
    directory: Path | None,
    *,
    force: bool = False,
    checkpoint: Checkpoint = lambda _: None,
) -> list[str]:
    """Undo the last commit of an attempt or a name, and return a line for each completed step.

    Args:
        reference: the attempt's id, or the name under which it was committed.
        database: the database of the commit.
        directory: the folder of the commit; required if the commit changed files.
        force: also restore objects that changed since the commit; the lines report the lost changes.
        checkpoint: called at each step, for use in tests.

    Raises: RequestError ``commit.refused``, before any change; StoreError ``commit.failed``.
    """
    database = database.resolve()
    with (
        translate_errors(database, "rollback"),
        _lock_and_plan(reference, database, directory, force=force) as plan,
    ):
        with open_journal(database) as journal:
            journal.append(plan.record)
            checkpoint("begun")
            told = _restore_all(plan, checkpoint)
            journal.append(replace(plan.record, state=DONE))
        return [*told, *(f"  lost: {line}" for line in plan.lost)]


def preview_rollback(
    reference: str, database: Path, directory: Path | None, *, force: bool = False
) -> list[str]:
    """Return a line for each step of `roll_back_commit`, or ``nothing to do``. Raises: the same errors."""
    database = database.resolve()
    with (
        translate_errors(database, "rollback"),
        _lock_and_plan(reference, database, directory, force=force) as plan,
    ):
        things = [plan.database, *plan.files] if plan.database is not None else plan.files
        told = [
            f"{plain(str(thing.path))}: would be {'removed' if thing.before is None else 'restored'}"
            f"{describe_hidden_file(thing.name)}"
            for thing in things
        ]
        return [*told, *(f"  lost: {line}" for line in plan.lost)] or ["nothing to do"]


@contextmanager
def _lock_and_plan(
    reference: str, database: Path, directory: Path | None, *, force: bool
) -> Iterator[_RollbackPlan]:
    """Lock the database, and return the rollback steps.

    Raises: RequestError ``commit.refused``, if the commit doesn't exist, or something has changed since
    then.
    """
    records = read_journal(database)
    commit = _find_commit(records, reference, database)
    replaced = commit.database
    was_there = replaced is not None and replaced.before is not None
    with lock_database(database) if was_there else nullcontext() as connection:
        lost: list[str] = []
        whole = None
        if replaced is not None:
            later = _find_later_commit(records, commit)
            whole = _plan_database(commit, replaced, database, connection, later, lost, force=force)
        files = _plan_files(commit, directory, lost, force=force)
        yield _RollbackPlan(
            record=replace(commit, action=ROLLBACK, state=STATE_BEGUN),
            connection=connection,
            database=whole,
            files=files,
            lost=lost,
        )


def _find_commit(records: Sequence[JournalRecord], reference: str, database: Path) -> JournalRecord:
    """Return the record of the commit to undo.

    Raises: RequestError ``commit.refused``, if no commit exists or all are already rolled back.
    """
    latest = {record.attempt_id: record for record in records if record.matches_reference(reference)}
    if not latest:
        raise build_refusal_error(f"the journal of {database} contains no commit of {plain(reference)}")
    standing = [
        record
        for record in records
        if latest.get(record.attempt_id) is record and (record.action, record.state) != (ROLLBACK, DONE)
    ]
    if not standing:
        raise build_refusal_error(f"{plain(reference)} is already rolled back")
    return standing[-1]


def _find_later_commit(records: Sequence[JournalRecord], commit: JournalRecord) -> str | None:
    """Return the id of a later attempt that was committed and not undone, or None."""
    since = records[max(n for n, each in enumerate(records) if each.attempt_id == commit.attempt_id) + 1 :]
    standing: dict[str, None] = {}
    for record in since:
        if record.action == COMMIT:
            standing[record.attempt_id] = None
        elif record.state == DONE:
            standing.pop(record.attempt_id, None)
    return next(reversed(standing), None)


def _plan_database(  # noqa: PLR0913 - the facts about one database
    commit: JournalRecord,
    replaced: ReplacedObject,
    database: Path,
    connection: sqlite3.Connection | None,
    later: str | None,
    lost: list[str],
    *,
    force: bool,
) -> _RestoreStep | None:
    """Return the restore step of the database, or None if it already has its former content.

    Raises: RequestError ``commit.refused``, if it changed since the commit and `force` isn't set.
    """
    current = connection.serialize() if connection is not None else read_if_exists(database)
    found = compute_content_digest(current) if current is not None else None
    if found == replaced.before:
        return None
    before = _read_backup(database, commit, replaced, compute_content_digest)
    if found != replaced.after:
        why = f"{database} has changed since the commit"
        if later is not None:
            why += f"; roll {later} back first"
        changed = describe_differences(before or b"", current or b"") if before is not None else []
        if not force:
            listed = "".join(f"\n  {line}" for line in changed)
            raise build_refusal_error(
                f"{why}, or use --force to discard the changes since the commit:{listed}"
            )
        lost.extend(f"{database.name}: {line}" for line in changed)
    return _RestoreStep(path=database, name=replaced.name, before=before, current=current)


def _plan_files(
    commit: JournalRecord, directory: Path | None, lost: list[str], *, force: bool
) -> list[_RestoreStep]:
    """Return the restore steps of the files whose content differs from the former content, or [].

    Raises: RequestError ``commit.refused``, if a folder is missing, or a file changed since the commit and
    `force` isn't set.
    """
    if not commit.files:
        return []
    if directory is None:
        names = ", ".join(plain(file.name) for file in commit.files)
        raise build_refusal_error(f"it changed {names}; pass the folder with --directory")
    root, restores = directory.resolve(), []
    for file in commit.files:
        path = resolve_inside_folder(root, file.name)
        current = read_if_exists(path)
        found = compute_digest(current) if current is not None else None
        if found == file.before:
            continue
        if found != file.after:
            if not force:
                raise build_refusal_error(
                    f"{plain(str(path))} has changed since the commit; --force discards the changes"
                )
            lost.append(f"{plain(file.name)}: changes since the commit")
        before = _read_backup(path, commit, file, compute_digest)
        restores.append(_RestoreStep(path=path, name=file.name, before=before, current=current))
    return restores


def _read_backup(
    path: Path, commit: JournalRecord, replaced: ReplacedObject, digest_of: Callable[[bytes], str]
) -> bytes | None:
    """Return the content before a commit, or None if the object didn't exist then.

    Raises: RequestError ``commit.refused``, if the backup is missing or was changed.
    """
    if replaced.before is None:
        return None
    backup = build_auxiliary_path(path, commit.attempt_id, "backup")
    content = read_if_exists(backup)
    if content is None or digest_of(content) != replaced.before:
        why = "no longer exists" if content is None else "differs from the state before the commit"
        raise build_refusal_error(f"the backup {plain(str(backup))} {why}")
    return content


def _restore_all(plan: _RollbackPlan, checkpoint: Checkpoint) -> list[str]:
    attempt_id, told = plan.record.attempt_id, []
    if plan.database is not None and plan.connection is not None:
        kept = _back_up_current_content(plan.database, attempt_id)
        checkpoint("kept")
        with open_in_memory(plan.database.before or b"") as source:
            source.backup(plan.connection)
        checkpoint("database")
        told.append(f"{plan.database.path}: restored; the replaced version: {kept}")
    elif plan.database is not None:
        told.append(_restore_or_remove_file(plan.database, attempt_id))
        checkpoint("database")
    for thing in plan.files:
        told.append(_restore_or_remove_file(thing, attempt_id))
        checkpoint("file")
    return told


def _restore_or_remove_file(thing: _RestoreStep, attempt_id: str) -> str:
    """Restore a file, or remove it if the commit created it, and return a line about the change."""
    path = plain(str(thing.path))
    if thing.before is None:
        kept = build_auxiliary_path(thing.path, attempt_id, KEPT)
        rename_durably(thing.path, kept)
        return f"{path}: removed; the removed version: {plain(kept.name)}{describe_hidden_file(thing.name)}"
    name = _back_up_current_content(thing, attempt_id)
    write_atomically(thing.path, thing.before, like=thing.path)
    return f"{path}: restored; the replaced version: {name}{describe_hidden_file(thing.name)}"


def _back_up_current_content(thing: _RestoreStep, attempt_id: str) -> str:
    """Save the current content as a backup, and return the backup's name, or ``nothing`` without content."""
    kept = build_auxiliary_path(thing.path, attempt_id, KEPT)
    if thing.current is None:
        return "nothing"
    write_atomically(kept, thing.current, like=thing.path)
    return plain(kept.name)
