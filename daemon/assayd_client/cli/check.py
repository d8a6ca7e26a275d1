"""Implements `assay check`, which validates files as their project's `.assay.toml` declares."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from assayd import did_you_mean
from assayd.errors import RequestError
from assayd.ports.command_line import FileOptions
from assayd_client import Document, PlainClient
from assayd_client.cli.kinds import get_files_reader
from assayd_client.cli.options import (
    CANCELLED,
    EXIT_CODE_BY_VERDICT,
    EXIT_ERROR,
    FAILED,
    VALIDATED,
    Junit,
    open_client,
)
from assayd_client.cli.report import SubmissionOrigin
from assayd_client.cli.submitting import add_file_label, read_files, submit_and_wait
from assayd_client.cli.terminal import get_stdout
from assayd_client.cli.validate import ReportFiles, write_report

NAME = ".assay.toml"
KEYS: Mapping[str, type] = {
    "match": str,
    "kind": str,
    "policy": str,
    "sample_paths": list,
    "input": dict,
    "options": dict,
    "cases": list,
    "labels": dict,
    "folder": bool,
}
TYPE_NAME_BY_TYPE = {str: "a string", list: "an array", dict: "a table", bool: "true or false"}
FOLDER_KINDS = frozenset({"module"})
"""Kinds whose submission is a file's folder, unless the option `folder` overrides this."""

UnsavedTextReader = Callable[[Path], bytes | None]
"""A function that returns the unsaved text of a file, or None if the file has no unsaved text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckProject:
    """A project: the tables of its `.assay.toml`, and the path of its folder."""

    root: Path
    tables: tuple[Mapping[str, Any], ...]

    def find_file_table(self, path: Path) -> Mapping[str, Any] | None:
        """Return the table that applies to a file, or None if no table matches."""
        try:
            relative = path.relative_to(self.root).as_posix()
        except ValueError:
            return None
        return next((table for table in self.tables if fnmatchcase(relative, table["match"])), None)

    def files(self) -> Iterator[Path]:
        """Yield every file that a table of the project matches.

        For a folder that is one submission, yield only the first matching file.
        """
        folders: set[Path] = set()
        for path in sorted(self.root.rglob("*")):
            table = self.find_file_table(path) if path.is_file() and not path.is_symlink() else None
            if table is None or (submits_folder(table) and path.parent in folders):
                continue
            folders.add(path.parent)
            yield path


def find_project(path: Path) -> CheckProject | None:
    """Return the project of a file from the nearest `.assay.toml` above the file, or None.

    Raises: RequestError ``project``, with a description of the error in `.assay.toml`.
    """
    for folder in (path, *path.parents):
        if os.path.isfile(folder / NAME):  # noqa: PTH113  (Path.is_file() raises for a folder that is not ours)
            return read_project(folder / NAME)
    return None


def read_project(path: Path) -> CheckProject:
    """Parse a `.assay.toml`. Raises: RequestError ``project``."""
    _require_trusted(path)
    import tomllib

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RequestError("project", f"{path}: {error}") from error
    tables = document.get("file")
    if document.keys() != {"file"} or not isinstance(tables, list) or not tables:
        raise RequestError("project", f"{path}: only [[file]] tables are allowed")
    for table in tables:
        _require_known_keys(path, table)
    return CheckProject(root=path.parent, tables=tuple(tables))


def _require_trusted(path: Path) -> None:
    """Ensure that no other user can have written the file, which determines submissions and options."""
    for each in (path, path.parent):
        found = each.stat()
        if found.st_uid not in {0, os.geteuid()} or found.st_mode & stat.S_IWOTH:
            message = f"{path} is ignored: another user could have written it"
            raise RequestError(
                "project", f"{message}: {each} must belong to you and must not be world-writable"
            )


def _require_known_keys(path: Path, table: object) -> None:
    if not isinstance(table, dict):
        raise RequestError("project", f"{path}: [[file]] must be a table, not {table!r}")
    for key, value in table.items():
        if key not in KEYS:
            message = f"{path}: [[file]]: unknown key {key}{did_you_mean.format_did_you_mean_hint(key, KEYS)}"
            raise RequestError("project", f"{message}; known keys: {', '.join(KEYS)}")
        if not isinstance(value, KEYS[key]):
            message = f"{path}: [[file]]: {key} must be {TYPE_NAME_BY_TYPE[KEYS[key]]}, not {value!r}"
            raise RequestError("project", message)
    if not {"match", "kind"} <= table.keys():
        raise RequestError("project", f"{path}: every [[file]] table requires match and kind")


def submits_folder(table: Mapping[str, Any]) -> bool:
    """Return whether the complete folder of a file is submitted instead of only the file."""
    return bool(table.get("folder", table["kind"] in FOLDER_KINDS))


def build_submission(
    path: Path, table: Mapping[str, Any], newer: UnsavedTextReader = lambda _: None
) -> tuple[dict[str, object], SubmissionOrigin]:
    """Return a file's submission, and the origin to which the findings' positions refer.

    Raises: RequestError, with the name of the file that causes the error.
    """
    read = read_files([path.parent if submits_folder(table) else path])
    texts: dict[str, bytes] = {}
    for name, (file, content) in read.items():
        text = newer(file)
        texts[name] = content if text is None else text
    options = FileOptions(
        sample_paths=tuple(table.get("sample_paths", ())),
        input=table.get("input"),
        extra=table.get("options", {}),
    )
    payload = dict(get_files_reader(table["kind"])(texts, options))
    if "cases" in table:
        payload["cases"] = table["cases"]
    submission: dict[str, object] = {"kind": table["kind"], "payload": payload}
    submission["labels"] = add_file_label(
        table.get("labels", {}), [path.parent if submits_folder(table) else path]
    )
    if "policy" in table:
        submission["policy"] = table["policy"]
    return submission, SubmissionOrigin(
        paths={name: str(file) for name, (file, _) in read.items()}, texts=texts
    )


EXIT_CODE_PRECEDENCE = (EXIT_ERROR, CANCELLED, FAILED, VALIDATED)
"""Exit codes in order of precedence."""


def check(
    context: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]…", help="Files or folders to check. Default: the current folder."),
    ] = None,
    sarif: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the findings as SARIF; - is standard output."),
    ] = None,
    junit: Junit = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also show the reports of validated files.")
    ] = False,
) -> None:
    """Validate a project's files as declared in its .assay.toml, for example in hooks and CI."""
    files = files or []
    reports = ReportFiles(sarif=sarif, junit=junit)
    reports.require_one_on_stdout()
    for named in files:
        if not named.exists():  # before anything is submitted, because a mistyped pattern would always pass
            raise RequestError("file.unreadable", f"{named}: no such file or directory")
    done: list[tuple[Document, SubmissionOrigin]] = []
    with open_client(context) as client:
        for path, project in _select_files(files):
            table = project.find_file_table(path)
            if table is None:
                continue
            submission, found = build_submission(path, table)
            origin = replace(
                found, paths={name: _to_relative_path(file) for name, file in found.paths.items()}
            )
            attempt = submit_and_wait(client, submission, show_progress=False, origin=origin)
            done.append((attempt, origin))
            if not reports.uses_stdout:
                _print_result(path, attempt, origin, verbose=verbose)
        _write_reports(client, done, reports)
    if not done and not files:
        raise RequestError("check.none", f"no [[file]] table in {NAME} matches a file here")
    if not done:  # as in a commit that changes no matching file
        print(
            f"assay: nothing to check: no [[file]] table in {NAME} matches the named files", file=sys.stderr
        )
        return
    codes = {EXIT_CODE_BY_VERDICT[attempt["verdict"]] for attempt, _ in done}
    raise typer.Exit(next(code for code in EXIT_CODE_PRECEDENCE if code in codes))


def _select_files(files: Sequence[Path]) -> Iterator[tuple[Path, CheckProject]]:
    """Yield the files with their projects.

    A folder that is one submission is yielded only once, as one of its files. Raises: RequestError
    ``check.project``, if a file has no project.
    """
    folders: set[Path] = set()
    for named in files or (Path(),):
        path = named.resolve()
        project = find_project(path)
        if project is None:
            raise RequestError(
                "check.project",
                f"{named}: no {NAME} in its folder or a parent folder; create one with a [[file]] table "
                "that contains match, kind and the kind's required keys",
            )
        for file in project.files() if path.is_dir() else (path,):
            table = project.find_file_table(file)
            if path.is_dir() and path not in file.parents:
                continue
            if table is not None and submits_folder(table):
                if file.parent in folders:
                    continue
                folders.add(file.parent)
            yield file, project


def _to_relative_path(path: str | Path) -> str:
    """Return a path relative to the current folder if it is below this folder, as SARIF viewers expect."""
    try:
        return Path(path).relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)


def _print_result(path: Path, attempt: Document, origin: SubmissionOrigin, *, verbose: bool) -> None:
    from assayd_client.cli.report import build_verdict_line, iter_report_lines
    from assayd_client.cli.terminal import build_line

    if verbose or attempt["verdict"] != "validated":
        screen = get_stdout()
        screen.lines(iter_report_lines(attempt, origin, width=screen.width))
    else:
        get_stdout().print(build_line(f"{_to_relative_path(path)}: ") + build_verdict_line(attempt))


def _write_reports(
    client: PlainClient, done: Sequence[tuple[Document, SubmissionOrigin]], reports: ReportFiles
) -> None:
    from assayd_client.cli.reports import build_sarif, build_sarif_log, render_junit_suite

    if reports.sarif is not None:
        rules = {rule["id"]: rule for kind in client.kinds()["kinds"] for rule in kind["rules"]}
        runs = [run for attempt, origin in done for run in build_sarif(attempt, origin, rules)["runs"]]
        write_report(reports.sarif, json.dumps(build_sarif_log(runs), indent=1) + "\n")
    if reports.junit is not None:
        write_report(reports.junit, render_junit_suite([attempt for attempt, _ in done]))
