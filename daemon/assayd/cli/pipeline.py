"""`assay pipeline`: look at stored pipelines, and apply what a validated attempt came to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from assayd.client import Document, PlainClient

pipeline_app = typer.Typer(help="Look at stored pipelines, and apply results.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
HEADS = ("id", "status", "updated")
STEP_HEADS = ("step", "result", "exit", "took", "started", "error")


@pipeline_app.command("list")
def list_pipelines(
    context: typer.Context,
    status: Annotated[str | None, typer.Option(help="Only those that stand so.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 50,
    as_json: Json = False,
) -> None:
    """List stored pipelines, newest first."""
    from assayd.cli.listing import print_table
    from assayd.cli.terminal import out, print_json

    with PlainClient(context.find_root().obj) as client:
        page = client.pipelines(status=status, limit=limit)
    if as_json:
        print_json(page)
    else:
        rows = [[one["id"], one["status"], one["updated_at"][:19] + "Z"] for one in page["pipelines"]]
        print_table(out(), HEADS, rows)


@pipeline_app.command("show")
def show(
    context: typer.Context,
    pipeline_id: Annotated[str, typer.Argument(metavar="ID", help="The pipeline.")],
    as_json: Json = False,
) -> None:
    """Show a pipeline: its steps, and what each attempt came to, step by step."""
    from assayd.cli.terminal import out, plain, print_json

    with PlainClient(context.find_root().obj) as client:
        pipeline = client.pipeline(pipeline_id)
    if as_json:
        print_json(pipeline)
        return
    console = out()
    console.print(f"{pipeline['id']}  {pipeline['status']}", markup=False, highlight=False)
    for step in pipeline["steps"]:
        console.print(f"  {step['position']}. {plain(step['name'])} ({step['type']})", markup=False)
    for attempt in pipeline["attempts"]:
        console.print(f"\n{attempt['attempt_id']}  {attempt['verdict'] or 'unfinished'}", markup=False)
        print_steps(attempt["steps"])


@pipeline_app.command("commit")
def commit(
    context: typer.Context,
    attempt_id: Annotated[str, typer.Argument(metavar="ID", help="A validated attempt.")],
    database: Annotated[Path, typer.Option(metavar="FILE", help="The database to apply the result to.")],
    directory: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to apply changed files to.")
    ] = None,
) -> None:
    """Apply a validated attempt's database and files, if nothing has changed since they were submitted."""
    from assayd.cli.commit import apply, read_result

    with PlainClient(context.find_root().obj) as client:
        result = read_result(client, attempt_id)
    for line in apply(result, database, directory):
        print(line)


def steps_of(client: PlainClient, attempt_id: str) -> Sequence[Document]:
    """Return the rows of the steps that an attempt ran."""
    pages = client.pipelines(attempt=attempt_id)["pipelines"]
    attempts = client.pipeline(pages[0]["id"])["attempts"] if pages else []
    return next((found["steps"] for found in attempts if found["attempt_id"] == attempt_id), [])


def print_steps(steps: Sequence[Document]) -> None:
    """Print a row per step."""
    from assayd.cli.listing import print_table
    from assayd.cli.report import duration
    from assayd.cli.terminal import out

    print_table(
        out(),
        STEP_HEADS,
        [
            [
                f"{step['position']}. {step['name']}",
                "ok" if step["is_successful"] else "failed",
                "killed" if step["exit_code"] is None else str(step["exit_code"]),
                duration(step["execution_time_ms"]),
                (step["run_time"] or "")[11:23],
                step["stderr"].strip().split("\n")[0][:200],
            ]
            for step in steps
        ],
    )
