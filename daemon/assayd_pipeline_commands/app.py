"""Defines the commands of `assay pipeline`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from assayd_client import Document, PlainClient
from assayd_client.cli.options import Json, open_client
from assayd_pipeline.forms import print_table_of_steps

pipeline_app = typer.Typer(help="Show stored pipelines, and apply their results.", no_args_is_help=True)

_LIBRARY_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
HEADS = ("id", "status", "updated")


@pipeline_app.command("list")
def list_pipelines(
    context: typer.Context,
    status: Annotated[str | None, typer.Option(help="Show only pipelines in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Show at most this many pipelines.")] = 50,
    as_json: Json = False,
) -> None:
    """List stored pipelines, newest first."""
    from assayd_client.cli.terminal import print_result

    with open_client(context) as client:
        page = client.records("pipelines", status=status, limit=limit)
    rows = ((one["id"], one["status"], one["updated_at"][:19] + "Z") for one in page["pipelines"])
    print_result(page, HEADS, rows, as_json=as_json)


@pipeline_app.command("show")
def show(
    context: typer.Context,
    pipeline_id: Annotated[
        str, typer.Argument(metavar="ID", help="Pipeline: id, unique id prefix, or `last`.")
    ],
    as_json: Json = False,
) -> None:
    """Show a pipeline with its steps and the result of each step in each attempt."""
    from assayd_client.cli.ids import resolve_record_id
    from assayd_client.cli.terminal import get_stdout, plain, print_json

    with open_client(context) as client:
        pipeline = client.records(
            "pipelines", resolve_record_id(client, "pipelines", "pipeline", pipeline_id)
        )
    if as_json:
        print_json(pipeline)
        return
    console = get_stdout()
    console.print(f"{pipeline['id']}  {pipeline['status']}")
    for step in pipeline["steps"]:
        console.print(f"  {step['position']}. {plain(step['name'])} ({step['type']})")
    for attempt in pipeline["attempts"]:
        console.print(f"\n{attempt['attempt_id']}  {attempt['verdict'] or 'unfinished'}")
        for told in _describe_origin(attempt):
            console.print(f"  {told}")
        print_table_of_steps(attempt["steps"])


def _describe_origin(attempt: Document) -> Iterator[str]:
    """Yield lines about the origin of an attempt: its predecessor, and the fix that it tries."""
    from assayd_client.cli.terminal import shorten

    if attempt["parent_id"] is not None:
        yield f"after {attempt['parent_id']}"
    fix = attempt["fix"]
    if fix is not None:
        yield f"fix {fix['number']} of repair {fix['repair_id']}, by {shorten(fix['provider'], 40)}"
        yield f"reason: {shorten(fix['reason'], 200)}"
        if fix["hint"] is not None:
            yield f"hint: {shorten(fix['hint'], 200)}"


Database = Annotated[Path, typer.Option(metavar="FILE", help="Apply the result to this database.")]
Directory = Annotated[Path | None, typer.Option(metavar="DIR", help="Apply changed files to this folder.")]
Name = Annotated[
    str, typer.Argument(metavar="NAME[@VERSION]", help="Approved pipeline. Default version: the newest.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would change, without changing anything.")
]


@pipeline_app.command("commit")
def commit(
    context: typer.Context,
    attempt_id: Annotated[
        str,
        typer.Argument(metavar="ID", help="Validated attempt: id, unique id prefix, or `last`."),
    ],
    database: Database,
    directory: Directory = None,
    dry_run: DryRun = False,
) -> None:
    """Apply a validated attempt's database and files, if nothing has changed since they were submitted."""
    from assayd_pipeline_commands.commit import apply_result, fetch_result, preview_commit

    with open_client(context) as client:
        meant, name = _find_attempt(client, attempt_id)
        result = fetch_result(client, meant)
    done = (
        preview_commit(result, database, directory)
        if dry_run
        else apply_result(result, database, directory, name=name)
    )
    for line in done:
        print(line)


@pipeline_app.command("rollback")
def rollback(
    reference: Annotated[str, typer.Argument(metavar="ID|NAME", help="Attempt that was committed.")],
    database: Database,
    directory: Directory = None,
    dry_run: DryRun = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also discard later changes, and list the discarded changes.")
    ] = False,
) -> None:
    """Undo a commit if nothing has changed since then; no daemon is needed."""
    from assayd_pipeline_commands.rollback import preview_rollback, roll_back_commit

    for line in (preview_rollback if dry_run else roll_back_commit)(
        reference, database, directory, force=force
    ):
        print(line)


@pipeline_app.command("run")
def run_pipeline(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    name: Name,
    file: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH|NAME=PATH", help="Data file; NAME is its path in the sandbox."),
    ] = None,
    database: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run on a copy of this SQLite database.")
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="A..B",
            help="Expect between A and B times as many rows as in the last run. Default: 0.5..2.",
        ),
    ] = None,
    commit_result: Annotated[
        bool, typer.Option("--commit", help="Apply the result if no data check fails.")
    ] = False,
    directory: Directory = None,
    webhook: Annotated[str | None, typer.Option(metavar="URL", help="Send the verdict to this URL.")] = None,
    as_json: Json = False,
) -> None:
    """Run an approved pipeline on new data, compared with earlier runs; `--commit` applies the result."""
    from assayd_pipeline_commands.run import PipelineRunCommand

    run = PipelineRunCommand(
        files=file or (), database=database, rows=rows, commit=commit_result, directory=directory
    )
    with open_client(context) as client:
        code = run.execute(client, name, webhook=webhook, as_json=as_json)
    raise typer.Exit(code)


@pipeline_app.command("history")
def history(
    context: typer.Context,
    name: Name,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Show at most this many runs.")] = 30,
    as_json: Json = False,
) -> None:
    """List your runs of an approved pipeline with their row counts, newest first."""
    from assayd_client.cli.library import split_reference
    from assayd_client.cli.terminal import print_json
    from assayd_pipeline_commands.run import print_history

    entry, version = split_reference(name)
    with open_client(context) as client:
        client.library_history(entry)  # names an entry that doesn't exist
        page = client.pipeline_runs(entry, version=version, limit=limit)
    print_json(page) if as_json else print_history(page["runs"])


def _find_attempt(client: PlainClient, said: str) -> tuple[str, str | None]:
    """Return the attempt's id, and its approved name if the caller specified this name, otherwise None.

    Raises: NotFound, if no attempt matches; RequestError, if the reference is ambiguous or malformed.
    """
    from assayd_client import NotFound
    from assayd_client.cli.ids import LAST
    from assayd_client.cli.ids import resolve_attempt_id as find_attempt
    from assayd_client.cli.library import find_entry

    if said != LAST and (_LIBRARY_NAME.fullmatch(said) or "@" in said):
        try:
            approved = find_entry(client, said)
        except NotFound:
            if "@" in said:
                raise
        else:
            return approved["attempt_id"], approved["name"]
    return find_attempt(client, said), None
