"""Applies the result of a validated pipeline attempt: the database and the changed files.

The commit changes nothing if anything differs from the submission. Replaced content is kept as a backup
next to the original, and the database's journal records every change, so that `rollback` can undo the
commit. If a commit was interrupted, repeating it completes the remaining steps and skips the completed
ones.
"""

from __future__ import annotations

import json
import sqlite3
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from assayd.errors import StoreError
from assayd.model.policy import REPORT_ONLY
from assayd.model.run import DATABASE_OUTPUT
from assayd_client import Document, PlainClient
from assayd_client.cli.terminal import plain
from assayd_pipeline_commands.journal import (
    COMMIT,
    DONE,
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
    find_last_record,
    has_same_content,
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

FILES = "files/"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """The inputs and results of an attempt.

    `base_database` is None if the attempt started without a database, `new_database` if it left none.
    """

    attempt_id: str
    base_files: Mapping[str, bytes]
    new_files: Mapping[str, bytes]
    base_database: bytes | None
    new_database: bytes | None


@dataclass(frozen=True, slots=True)
class _FileChange:
    """A file to replace. `base` is None if the file must not exist before the commit."""

    name: str
    path: Path
    base: bytes | None
    new: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommitPlan:
    """The remaining steps, and the record of the whole commit, which includes the completed steps."""

    connection: sqlite3.Connection | None
    database_due: bool
    files_due: Sequence[_FileChange]
    record: JournalRecord


def fetch_result(client: PlainClient, attempt_id: str) -> CommitResult:
    """Fetch the inputs and results of an attempt.

    Raises: RequestError ``commit.refused``, if the attempt can't be committed; StoreError
    ``artifact.damaged``, if an artifact differs from the daemon's record.
    """
    attempt = client.attempt(attempt_id)
    if attempt["kind"] != "pipeline":
        raise build_refusal_error(f"{attempt_id} is a {attempt['kind']}, not a pipeline")
    if attempt["verdict"] != "validated":
        raise build_refusal_error(f"{attempt_id} is {attempt['verdict'] or attempt['state']}, not validated")
    if attempt.get("distrusted_at") is not None:
        raise build_refusal_error(
            f"{attempt_id}: node {attempt['node']}, which judged it, is distrusted; replay the attempt"
        )
    if not attempt.get("approvable", True):
        raise build_refusal_error(f"{attempt_id}: {REPORT_ONLY}")
    [document] = [one for one in attempt["artifacts"] if one["name"].startswith("submission_")]
    payload = json.loads(_fetch_artifact(client, attempt_id, document))["payload"]
    given = payload.get("database") or {}
    if given.get("schema_sql") is not None:
        raise build_refusal_error(
            "the attempt ran on a schema, not on a database; submit the database as base64"
        )
    outputs = {
        one["name"].removeprefix(FILES): _fetch_artifact(client, attempt_id, one)
        for one in attempt["artifacts"]
        if one["name"].startswith(FILES)
    }
    return CommitResult(
        attempt_id=attempt_id,
        base_files={path: _decode_content(value) for path, value in (payload.get("files") or {}).items()},
        new_database=outputs.pop(DATABASE_OUTPUT, None),
        new_files=outputs,
        base_database=b64decode(given["base64"]) if given.get("base64") is not None else None,
    )


def apply_result(
    result: CommitResult,
    database: Path,
    directory: Path | None,
    checkpoint: Checkpoint = lambda _: None,
    *,
    name: str | None = None,
) -> list[str]:
    """Apply a result, and return a line for each completed step (none if all were done before).

    Args:
        result: the return value of `fetch_result`.
        database: the real database.
        directory: the real folder of the attempt's files; required if the attempt changed any file.
        checkpoint: called at each step, for use in tests.
        name: the library name by which the pipeline was requested, if any.

    Raises: RequestError ``commit.refused``, before any change; StoreError ``commit.failed``.
    """
    database = database.resolve()
    with translate_errors(database, "commit"), _lock_and_plan(result, database, directory, name) as plan:
        if not (plan.database_due or plan.files_due):
            _close_interrupted(plan, database)
            return []
        _write_staged_files(result, plan.files_due)
        checkpoint("staged")
        with open_journal(database) as journal:
            journal.append(plan.record)
            checkpoint("begun")
            told = []
            if plan.connection is not None and plan.database_due:
                told.append(_replace_database(result, plan.connection, database, checkpoint))
            told += _rename_into_place(result, plan.files_due, checkpoint)
            journal.append(replace(plan.record, state=DONE))
            return told


def preview_commit(result: CommitResult, database: Path, directory: Path | None) -> list[str]:
    """Return a line for each step of `apply_result`, and for each table that would change.

    Return ``nothing to do`` as the only line if no step remains. Raises: RequestError ``commit.refused``, if
    the commit would be refused; StoreError ``commit.failed``.
    """
    database = database.resolve()
    with translate_errors(database, "commit"), _lock_and_plan(result, database, directory, None) as plan:
        told = []
        if plan.connection is not None and plan.database_due:
            backup = build_auxiliary_path(database, result.attempt_id, "backup").name
            told.append(f"{database}: would be replaced; backup: {backup}")
            changed = describe_differences(plan.connection.serialize(), result.new_database or b"")
            told += [f"  {line}" for line in changed]
        for change in plan.files_due:
            what = "created" if change.base is None else "replaced"
            told.append(f"{plain(str(change.path))}: would be {what}{describe_hidden_file(change.name)}")
        return told or ["nothing to do"]


@contextmanager
def _lock_and_plan(
    result: CommitResult, database: Path, directory: Path | None, name: str | None
) -> Iterator[_CommitPlan]:
    """Lock the database, and return the steps for the database and the files.

    Raises: RequestError ``commit.refused``, if anything differs from the submission.
    """
    if result.base_database is None:
        changes = _list_changes(result, directory)
        created = []
        if result.new_database is not None:
            created = [_FileChange(database.name, database, None, result.new_database)]
        due = [change for change in (*created, *changes) if _is_due(change)]
        record = _build_record(result, database, changes, name)
        yield _CommitPlan(connection=None, database_due=False, files_due=due, record=record)
        return
    with lock_database(database) as connection:
        is_due = _is_database_due(result, connection, database)
        changes = _list_changes(result, directory)
        yield _CommitPlan(
            connection=connection,
            database_due=is_due,
            files_due=[change for change in changes if _is_due(change)],
            record=_build_record(result, database, changes, name),
        )


def _build_record(
    result: CommitResult, database: Path, changes: Sequence[_FileChange], name: str | None
) -> JournalRecord:
    base, new = result.base_database, result.new_database
    kept = build_auxiliary_path(database, result.attempt_id, "backup").name if base is not None else None
    replaced = None
    if new is not None:
        before = compute_content_digest(base) if base is not None else None
        replaced = ReplacedObject(
            name=database.name, before=before, after=compute_content_digest(new), backup=kept
        )
    return JournalRecord(
        action=COMMIT,
        state=STATE_BEGUN,
        attempt_id=result.attempt_id,
        name=name,
        database=replaced,
        files=tuple(
            _build_replaced_object(result, change) for change in changes if change.base != change.new
        ),
    )


def _build_replaced_object(result: CommitResult, change: _FileChange) -> ReplacedObject:
    before = compute_digest(change.base) if change.base is not None else None
    backup = (
        build_auxiliary_path(change.path, result.attempt_id, "backup").name
        if change.base is not None
        else None
    )
    return ReplacedObject(name=change.name, before=before, after=compute_digest(change.new), backup=backup)


def _close_interrupted(plan: _CommitPlan, database: Path) -> None:
    """Record the end of a commit if a crash prevented the record after the last change."""
    known = find_last_record(read_journal(database), plan.record.attempt_id)
    if known is not None and (known.action, known.state) == (COMMIT, STATE_BEGUN):
        with open_journal(database) as journal:
            journal.append(replace(known, state=DONE))


def _list_changes(result: CommitResult, directory: Path | None) -> list[_FileChange]:
    """Return all submitted or changed files, each with its old and its new content.

    Return an empty list if no folder is given and no file was changed. Raises: RequestError
    ``commit.refused``, if a changed file needs a folder, or is outside it.
    """
    if directory is None:
        if result.new_files:
            raise build_refusal_error(
                f"it changed {', '.join(sorted(result.new_files))}; pass the folder with --directory"
            )
        return []
    root = directory.resolve()
    changes = []
    for name in sorted(result.base_files.keys() | result.new_files.keys()):
        base, new = result.base_files.get(name), result.new_files.get(name)
        changes.append(
            _FileChange(
                name, resolve_inside_folder(root, name), base, new if new is not None else base or b""
            )
        )
    return changes


def _is_due(change: _FileChange) -> bool:
    """Return whether a file lacks the new content. Raises: RequestError, if it has unexpected content."""
    current = read_if_exists(change.path)
    if current == change.new:
        return False
    if current == change.base:
        return True
    if change.base is None:
        raise build_refusal_error(f"{change.path} exists, but didn't exist when the attempt began")
    why = "has been deleted" if current is None else "has changed"
    raise build_refusal_error(
        f"{change.path} {why} since it was submitted (digest {compute_digest(change.base)[:12]} expected)"
    )


def _write_staged_files(result: CommitResult, due: Sequence[_FileChange]) -> None:
    """Write new files and backups next to the files to replace."""
    for change in due:
        change.path.parent.mkdir(parents=True, exist_ok=True)
        if change.base is not None:
            write_atomically(
                build_auxiliary_path(change.path, result.attempt_id, "backup"), change.base, like=change.path
            )
        write_atomically(
            build_auxiliary_path(change.path, result.attempt_id, "new"), change.new, like=change.path
        )


def _rename_into_place(result: CommitResult, due: Sequence[_FileChange], checkpoint: Checkpoint) -> list[str]:
    """Rename each new file to its final path, and return a line per file.

    The backup keeps the old content.
    """
    told = []
    for change in due:
        rename_durably(build_auxiliary_path(change.path, result.attempt_id, "new"), change.path)
        checkpoint("file")
        backup = build_auxiliary_path(change.path, result.attempt_id, "backup").name
        what = f"replaced; backup: {plain(backup)}" if change.base is not None else "created"
        told.append(f"{plain(str(change.path))}: {what}{describe_hidden_file(change.name)}")
    return told


def _is_database_due(result: CommitResult, connection: sqlite3.Connection, database: Path) -> bool:
    """Return whether the database lacks the new content.

    Raises: RequestError ``commit.refused``, if the database has unexpected content.
    """
    current, base = connection.serialize(), result.base_database or b""
    if result.new_database is not None and has_same_content(current, result.new_database):
        return False
    if not has_same_content(current, base):
        raise build_refusal_error(
            f"{database} has changed since it was submitted (digest {compute_digest(base)[:12]} expected)"
        )
    if result.new_database is None:
        return False
    with open_in_memory(result.new_database) as source:
        (answer,) = source.execute("PRAGMA integrity_check(1)").fetchone()
    if answer != "ok":
        raise build_refusal_error(f"the resulting database is damaged: {answer}")
    return True


def _replace_database(
    result: CommitResult, connection: sqlite3.Connection, database: Path, checkpoint: Checkpoint
) -> str:
    backup = build_auxiliary_path(database, result.attempt_id, "backup")
    write_atomically(backup, connection.serialize(), like=database)
    checkpoint("backed_up")
    with open_in_memory(result.new_database or b"") as source:
        source.backup(connection)
    checkpoint("database")
    return f"{database}: replaced; backup: {backup.name}"


def _fetch_artifact(client: PlainClient, attempt_id: str, artifact: Document) -> bytes:
    if artifact["truncated"]:
        raise build_refusal_error(f"{artifact['name']} was stored only partially")
    content = client.artifact(attempt_id, artifact["name"])
    if compute_digest(content) != artifact["sha256"]:
        raise StoreError("artifact.damaged", f"{artifact['name']} differs from the daemon's record")
    return content


def _decode_content(value: object) -> bytes:
    return b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()
