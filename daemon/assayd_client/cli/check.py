"""`assay check`: validate files as the project's `.assay.toml` says, for hooks and build servers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from assayd.errors import RequestError
from assayd_client import Document, PlainClient
from assayd_client.cli.exits import CANCELLED, FAILED, OF_VERDICT, TROUBLE, VALIDATED
from assayd_client.cli.options import Junit, open_client
from assayd_client.cli.origin import Origin
from assayd_client.cli.project import NAME, Project, find_project, is_folder, submission_of
from assayd_client.cli.submitting import run
from assayd_client.cli.terminal import out
from assayd_client.cli.validate import ReportFiles, put

WORST = (TROUBLE, CANCELLED, FAILED, VALIDATED)
"""Exit codes, the one that counts first."""


def check(
    context: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]…", help="Files or folders. Default: all of this folder."),
    ] = None,
    sarif: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the findings as SARIF; - is standard output."),
    ] = None,
    junit: Junit = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the reports of validated files as well.")
    ] = False,
) -> None:
    """Validate a project's files as declared in its .assay.toml, for hooks and CI."""
    files = files or []
    reports = ReportFiles(sarif=sarif, junit=junit)
    reports.require_one_on_stdout()
    for named in files:
        if not named.exists():  # before anything is submitted: a slip of the hand would pass every time
            raise RequestError("file.unreadable", f"{named}: no such file or directory")
    done: list[tuple[Document, Origin]] = []
    with open_client(context) as client:
        for path, project in _wanted(files):
            table = project.table_of(path)
            if table is None:
                continue
            submission, found = submission_of(path, table)
            origin = replace(found, paths={name: _near(file) for name, file in found.paths.items()})
            attempt = run(client, submission, show_progress=False)
            done.append((attempt, origin))
            if not reports.take_stdout:
                _show(path, attempt, origin, verbose=verbose)
        _write(client, done, reports)
    if not done and not files:
        raise RequestError("check.none", f"no table of {NAME} fits a file here")
    if not done:  # as in a commit that changes none of them
        print(f"assay: nothing to check: no table of {NAME} fits a file that was named", file=sys.stderr)
        return
    codes = {OF_VERDICT[attempt["verdict"]] for attempt, _ in done}
    raise typer.Exit(next(code for code in WORST if code in codes))


def _wanted(files: Sequence[Path]) -> Iterator[tuple[Path, Project]]:
    """Return the files with their projects; a folder that is one submission once."""
    folders: set[Path] = set()
    for named in files or (Path(),):
        path = named.resolve()
        project = find_project(path)
        if project is None:
            raise RequestError(
                "check.project",
                f"{named}: there is no {NAME} in its folder or one above it; write one, with a table "
                "[[file]] of match, kind and what the kind needs",
            )
        for file in project.files() if path.is_dir() else (path,):
            table = project.table_of(file)
            if path.is_dir() and path not in file.parents:
                continue
            if table is not None and is_folder(table):
                if file.parent in folders:
                    continue
                folders.add(file.parent)
            yield file, project


def _near(path: str | Path) -> str:
    """Return a path from here where it lies below: what code scanning matches with its checkout."""
    try:
        return Path(path).relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)


def _show(path: Path, attempt: Document, origin: Origin, *, verbose: bool) -> None:
    from assayd_client.cli.report import render, verdict_line
    from assayd_client.cli.screen import line

    if verbose or attempt["verdict"] != "validated":
        screen = out()
        screen.lines(render(attempt, origin, width=screen.width))
    else:
        out().print(line(f"{_near(path)}: ") + verdict_line(attempt))


def _write(client: PlainClient, done: Sequence[tuple[Document, Origin]], reports: ReportFiles) -> None:
    from assayd_client.cli.report_files import sarif, sarif_log
    from assayd_client.cli.reports import junit_suite

    if reports.sarif is not None:
        rules = {rule["id"]: rule for kind in client.kinds()["kinds"] for rule in kind["rules"]}
        runs = [run for attempt, origin in done for run in sarif(attempt, origin, rules)["runs"]]
        put(reports.sarif, json.dumps(sarif_log(runs), indent=1) + "\n")
    if reports.junit is not None:
        put(reports.junit, junit_suite([attempt for attempt, _ in done]))
