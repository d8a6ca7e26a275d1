"""Implements the operators' commands that examine the daemon, clean up, back up, and show metrics."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated

import typer

from assayd.errors import ConfigError, RequestError
from assayd_client import DaemonUnreachable, Document, PlainClient, ServerChoice
from assayd_client.cli.options import EXIT_ERROR, FAILED, Json, open_client, to_api_time
from assayd_client.cli.terminal import get_stdout, print_json

DATABASE = "assayd.db"
IDENTITY = "daemon-id"
PARTIAL_SUFFIX = ".partial"


def find_state_dir(client: PlainClient) -> Path:
    """Return the daemon's state directory, or the configured directory if no daemon responds.

    Raises:
        ConfigError: ``backup.database``, if the database isn't a file in that directory.
        ClientError: the daemon responds without its state directory.
    """
    try:
        daemon = client.daemon()
    except DaemonUnreachable:
        from assayd.settings import load_settings

        settings = load_settings()
        place, with_database = settings.state_dir, settings.database_url is None
    else:
        place, with_database = Path(daemon["state_dir"]), daemon["database_in_state"]
    if not with_database:
        message = (
            "database_url is set: copy that database with its own tools, and pass --state-dir to copy the "
            "bundles"
        )
        raise ConfigError("backup.database", message)
    return place


def back_up_state(target: Path, source: Path) -> int:
    """Copy a state directory, and return the number of bundles that are new.

    Raises: RequestError ``backup.failed``, if a file can't be read or written.
    """
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        bundles: Iterable[str] | None = None
        if (source / DATABASE).exists():
            _copy_database(source / DATABASE, target / DATABASE)
            bundles = _list_referenced_bundles(target / DATABASE)
        shutil.copyfile(source / IDENTITY, target / IDENTITY)
        return _copy_bundles(source / "artifacts", target / "artifacts", bundles)
    except (OSError, sqlite3.Error) as error:
        raise RequestError("backup.failed", f"the state directory can't be copied: {error}") from error


def _copy_database(source: Path, target: Path) -> None:
    """Copy the database by SQLite's backup API, which excludes partial concurrent writes."""
    fresh = target.with_name(target.name + PARTIAL_SUFFIX)
    fresh.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as live,
        closing(sqlite3.connect(fresh)) as copy,
    ):
        live.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")
    for leftover in ("-wal", "-shm"):  # leftovers of an earlier copy that a daemon was started on
        target.with_name(target.name + leftover).unlink(missing_ok=True)
    fresh.replace(target)


def _list_referenced_bundles(database: Path) -> list[str]:
    """Return the locations of all bundles to which the verdicts in a database refer."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as copy:
        return [row[0] for row in copy.execute("SELECT bundle FROM verdicts WHERE bundle IS NOT NULL")]


def _copy_bundles(source: Path, target: Path, names: Iterable[str] | None) -> int:
    """Copy the given bundles, or all bundles if None, and return the number of new bundles."""
    copied = 0
    if names is None:
        names = [str(bundle.relative_to(source)) for bundle in source.glob("*/*/[!.]*")]
    for name in sorted(names):
        bundle, place = source / name, target / name
        if place.exists():
            continue
        partial = place.with_name(f".tmp-{place.name}")
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if partial.exists():
            _remove_tree(partial)
        try:
            shutil.copytree(bundle, partial)
        except (FileNotFoundError, shutil.Error) as problem:
            # Removed meanwhile because of age, or missing for longer: the other bundles are copied anyway.
            if bundle.exists():
                raise RequestError(
                    "backup.failed", f"the bundle {name} can't be copied: {problem}"
                ) from problem
            _remove_tree(partial)
            continue
        partial.replace(place)
        copied += 1
    return copied


def _remove_tree(folder: Path) -> None:
    """Remove a folder if it exists, even if the folder contains read-only folders."""
    for path, _, _ in os.walk(folder):
        Path(path).chmod(0o700)
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def doctor(context: typer.Context, as_json: Json = False) -> None:
    """Check the daemon: engine, images, limits, isolation and permissions."""
    from assayd_client.cli.listing import CHECK_COLUMNS, build_check_row, iter_check_lines
    from assayd_client.cli.terminal import print_table

    with open_client(context) as client:
        checks = client.doctor()["checks"]
    if as_json:
        print_json(checks)
    elif get_stdout().is_terminal:
        get_stdout().lines(iter_check_lines(checks))
    else:
        print_table(get_stdout(), CHECK_COLUMNS, [build_check_row(check) for check in checks])
    if any(check["status"] == "fail" for check in checks):
        raise typer.Exit(EXIT_ERROR)


def collect_garbage(
    context: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be removed, without removing anything.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Delete finished attempts and bundles beyond the retention limits (operators only)."""
    from assayd_client.cli.terminal import format_count

    with open_client(context) as client:
        swept = client.collect_garbage(dry_run=dry_run)
    if as_json:
        print_json(swept)
        return
    what = (
        f"{format_count(swept['attempts'], 'attempt')} and {format_count(swept['bundles'], 'bundle')} of "
        "attempts that remain"
    )
    verb = "would be removed" if dry_run else "removed"
    print(f"{what} {verb}, {swept['disk_bytes'] / 2**20:.1f} MiB")


def backup(
    context: typer.Context,
    target: Annotated[
        Path, typer.Argument(metavar="DIR", help="Destination folder; an existing copy in it is updated.")
    ],
    state_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="State directory of the daemon. Default: ask the daemon."),
    ] = None,
) -> None:
    """Back up the database and bundles of a running daemon, as root or its user."""
    from assayd_client.cli.terminal import format_count

    if state_dir is None:
        with open_client(context) as client:
            if isinstance(client.address, ServerChoice):
                message = f"backup copies files of this host, but {client.address} is another host"
                raise RequestError("usage", f"{message}; copy its database and bundles with their own tools")
            state_dir = find_state_dir(client)
    copied = format_count(back_up_state(target, state_dir), "new bundle")
    print(f"{target}: the database and {copied} of {state_dir}")


def metrics(
    context: typer.Context,
    answers: Annotated[
        bool, typer.Option("--answers", help="Count providers' answers by kind, provider and week instead.")
    ] = False,
    weeks: Annotated[
        int, typer.Option(min=1, max=53, help="With --answers: weeks to count, including the current one.")
    ] = 8,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="With --answers: count only this kind.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the daemon's metrics, or what models get wrong (--answers)."""
    if as_json and not answers:
        raise RequestError("usage", "--json requires --answers; the other metrics are Prometheus text")
    with open_client(context) as client:
        if not answers:
            sys.stdout.write(client.metrics().decode())
            return
        counted = client.answers(weeks=weeks, kind=kind)
    if as_json:
        print_json(counted)
        return
    from assayd_client.cli.listing import ANSWER_COLUMNS, iter_answer_rows
    from assayd_client.cli.terminal import print_table

    print_table(get_stdout(), ANSWER_COLUMNS, list(iter_answer_rows(counted["weeks"])))
    if not counted["complete"]:
        print("assay: only the newest generations and repairs are counted", file=sys.stderr)


def version() -> None:
    """Print the versions of client and daemon."""
    from assayd import __version__

    print(f"assay {__version__}")


def show_audit(
    context: typer.Context,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Show changes since this age or time: 30m, 24h, 7d or RFC 3339."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify that no line was changed or removed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the audit log (operators only). With --verify, the exit code is 1 if the log was changed."""
    with open_client(context) as client:
        lines = client.audit(since=None if verify else to_api_time(since)).splitlines(keepends=True)
    if verify:
        _verify_audit_chain(lines)
    elif as_json:
        for line in lines:
            print(line.decode("utf-8", "replace"), end="")
    else:
        _print_entries([json.loads(line) for line in lines])


def _verify_audit_chain(lines: list[bytes]) -> None:
    from assayd.model import audit_chain

    try:
        chain = audit_chain.verify_chain(lines)
    except audit_chain.AuditError as error:
        print(f"Changed: {error}")
        raise typer.Exit(FAILED) from error
    print(f"✓ {chain.lines} lines, none changed or removed, from {chain.first_at} to {chain.last_at}")


def _print_entries(entries: list[Document]) -> None:
    from assayd_client.cli.terminal import get_stdout, print_table

    rows = [
        (entry["at"][:19] + "Z", _format_actor(entry["actor"]), entry["action"], entry["subject"])
        for entry in entries
    ]
    print_table(get_stdout(), ("at", "who", "action", "subject"), rows)


def _format_actor(actor: Document) -> str:
    if "uid" in actor:
        return f"uid {actor['uid']}"
    return f"token {actor['token']}" if "token" in actor else "daemon"
