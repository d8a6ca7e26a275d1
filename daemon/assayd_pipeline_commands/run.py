"""Implements `assay pipeline run` and `history`, which run approved steps on new data."""

from __future__ import annotations

import re
import sqlite3
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from assayd.errors import RequestError
from assayd.ports.command_line import encode_payload_value
from assayd_client import Document, PlainClient
from assayd_client.cli.library import split_reference
from assayd_client.cli.options import EXIT_CODE_BY_VERDICT
from assayd_client.cli.submitting import WAIT_S, read_files
from assayd_pipeline.command_line import command_line
from assayd_pipeline_commands.commit import CommitResult, apply_result, fetch_result
from assayd_pipeline_commands.journal import read_regular_file, resolve_inside_folder

HEADS = ("run", "started", "version", "verdict", "rows", "findings")
_RANGE_PATTERN = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\.\.(\d{1,6}(?:\.\d{1,6})?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRunCommand:
    """The options of `assay pipeline run`."""

    files: Sequence[str]
    database: Path | None
    rows: str | None
    commit: bool
    directory: Path | None

    def execute(self, client: PlainClient, name: str, *, webhook: str | None, as_json: bool) -> int:
        """Run the pipeline, show the report, apply the result if `commit` is set, and return the exit code.

        Raises: RequestError; ClientError; StoreError, under the same conditions as `commit`.
        """
        from assayd_client.cli.validate import print_attempt

        if self.commit and self.database is None:
            raise RequestError(
                "usage", "--commit requires --database FILE, the database to apply the result to"
            )
        if self.directory is not None and not self.commit:
            raise RequestError("usage", "--directory requires --commit")
        entry, version = split_reference(name)
        database = (
            None if self.database is None else {"base64": b64encode(_copy_database(self.database)).decode()}
        )
        attempt = client.run_pipeline(
            entry,
            version=version,
            files=self._read_data_files(),
            database=database,
            range=None if self.rows is None else _parse_range(self.rows),
            strict=self.commit,
            webhook=webhook,
        )
        while attempt["state"] != "finished":
            attempt = client.attempt(attempt["id"], wait_s=WAIT_S)
        print_attempt(attempt, as_json=as_json)
        code = EXIT_CODE_BY_VERDICT[attempt["verdict"]]
        if self.commit and self.database is not None:
            if code:
                print(
                    f"assay: nothing was committed: {attempt['id']} is {attempt['verdict']}", file=sys.stderr
                )
                return code
            result = fetch_result(client, attempt["id"])
            result = replace(result, base_files=self._read_replaced_files(result))
            done = apply_result(result, self.database, self.directory, name=entry)
            print("\n".join(done), file=sys.stderr if as_json else sys.stdout)
        return code

    def _read_replaced_files(self, result: CommitResult) -> Mapping[str, bytes]:
        """Return the current content of the files that the result will replace.

        Other submitted files were read by this command, from any folder. A file that the run created may
        already exist from an earlier run.
        """
        submitted = {name: old for name, old in result.base_files.items() if name in result.new_files}
        if self.directory is None:
            return submitted
        root = self.directory.resolve()
        paths = {
            name: resolve_inside_folder(root, name) for name in result.new_files if name not in submitted
        }
        return submitted | {name: read_regular_file(path) for name, path in paths.items() if path.exists()}

    def _read_data_files(self) -> Mapping[str, object]:
        """Return the data files keyed by their paths in the sandbox.

        Raises: RequestError ``usage``, if two files have the same path.
        """
        found: dict[str, object] = {}
        for said in self.files:
            name, equals, path = said.rpartition("=")
            read = read_files([Path(path)])
            for own, (_, content) in read.items():
                place = name if equals else command_line.container_path(own)
                if place in found or (equals and len(read) > 1):
                    raise RequestError("usage", f"--file {said}: more than one file is named {place}")
                found[place] = encode_payload_value(content)
        return found


def _parse_range(text: str) -> Mapping[str, float]:
    found = _RANGE_PATTERN.fullmatch(text)
    if found is None or float(found[1]) > float(found[2]):
        raise RequestError("usage", f"--rows {text!r}: write the minimum and the maximum, such as 0.5..2")
    return {"least": float(found[1]), "most": float(found[2])}


def _copy_database(database: Path) -> bytes:
    """Return the committed content of a database.

    Raises: RequestError ``file.unreadable``, if it can't be read or isn't a database.
    """
    try:
        uri = f"{database.resolve(strict=True).as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.execute("PRAGMA schema_version")  # raises an error if the file isn't a database
            return connection.serialize()
    except (OSError, sqlite3.Error) as problem:
        why = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise RequestError("file.unreadable", f"{database}: {why}") from problem


def print_history(runs: Sequence[Document]) -> None:
    """Print a table with one row per run of a pipeline."""
    from assayd_client.cli.terminal import get_stdout, plain, print_table

    rows = []
    for run in runs:
        counts = {**run["inputs"], **run["outputs"], **run["tables"]}
        shown = ", ".join(f"{name} {number}" for name, number in counts.items() if number is not None)
        found = " ".join(finding["message"] for finding in run["findings"])
        cells = (run["created_at"][:19] + "Z", str(run["version"]), run["verdict"] or "running", shown, found)
        rows.append([run["attempt_id"], *(plain(cell) for cell in cells)])
    print_table(get_stdout(), HEADS, rows)
