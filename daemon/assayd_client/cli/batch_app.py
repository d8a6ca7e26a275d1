"""The commands of `assay batch`: what each is called, what it takes, and which part does it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assayd_client.cli.ids import batch_name as find_batch

if TYPE_CHECKING:
    from assayd_client import PlainClient

batch_app = typer.Typer(help="Validate many submissions, one per line of a file.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Batch: name, id, unique beginning of the id, or `last`.")
]
File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE.jsonl", help="File with one submission per line, as JSON; - is standard input."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Concurrency = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Run at most this many attempts at once.")
]
Webhook = Annotated[str | None, typer.Option(metavar="URL", help="Send a message to this URL at the end.")]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write results.jsonl and summary.json into this folder.")
]
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a JUnit report.")]
Sarif = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the findings as SARIF.")]


@batch_app.command("run")
def run_batch(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    file: File,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name the batch. Default: a generated name.")
    ] = None,
    concurrency: Concurrency = None,
    dedupe: Annotated[
        bool, typer.Option("--dedupe", help="Run lines with the same input, policy and image once.")
    ] = False,
    webhook: Webhook = None,
    out: Out = None,
    junit: Junit = None,
    sarif: Sarif = None,
    as_json: Json = False,
) -> None:
    """Send a file as a new batch, wait for its end, and show what it came to."""
    from assayd_client.cli.batch import make_up_name, require_new, send_and_follow
    from assayd_client.cli.batch_files import BatchOutputs

    with _client(context) as client:
        chosen = name or make_up_name(file)
        require_new(client, chosen, file)
        outputs = BatchOutputs(folder=out, junit=junit, sarif=sarif, as_json=as_json)
        code = send_and_follow(
            client, chosen, file, outputs, concurrency=concurrency, dedupe=dedupe or None, webhook=webhook
        )
    raise typer.Exit(code)


@batch_app.command("resume")
def resume_batch(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    name: Name,
    file: File,
    concurrency: Concurrency = None,
    webhook: Webhook = None,
    out: Out = None,
    junit: Junit = None,
    sarif: Sarif = None,
    as_json: Json = False,
) -> None:
    """Go on with a batch: send what is missing of its file, wait for its end, show what it came to."""
    from assayd_client.cli.batch import send_and_follow
    from assayd_client.cli.batch_files import BatchOutputs

    with _client(context) as client:
        name = client.batch(find_batch(client, name))["name"]
        outputs = BatchOutputs(folder=out, junit=junit, sarif=sarif, as_json=as_json)
        code = send_and_follow(client, name, file, outputs, concurrency=concurrency, webhook=webhook)
    raise typer.Exit(code)


@batch_app.command("status")
def show_batch(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show how far a batch is."""
    from assayd_client.cli.batch import status_lines
    from assayd_client.cli.terminal import out as console
    from assayd_client.cli.terminal import print_json

    with _client(context) as client:
        batch = client.batch(find_batch(client, name))
    if as_json:
        print_json(batch)
        return
    console().lines(status_lines(batch))


@batch_app.command("list")
def list_batches(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Show at most this many batches.")] = 20,
    as_json: Json = False,
) -> None:
    """List batches, newest first."""
    from assayd_client.cli.batch import BATCH_HEADS, batch_row
    from assayd_client.cli.listing import print_table
    from assayd_client.cli.terminal import out as console
    from assayd_client.cli.terminal import print_json

    with _client(context) as client:
        page = client.batches(limit=limit)
    if as_json:
        print_json(page)
    else:
        print_table(console(), BATCH_HEADS, [batch_row(batch) for batch in page["batches"]])


@batch_app.command("results")
def print_results(
    context: typer.Context,
    name: Name,
    failed: Annotated[bool, typer.Option("--failed", help="Print only lines that aren't validated.")] = False,
) -> None:
    """Print a line of JSON per line of the file, with the attempt and its report."""
    import json

    with _client(context) as client:
        for result in client.batch_results(find_batch(client, name)):
            if failed and result["verdict"] == "validated":
                continue
            sys.stdout.write(json.dumps(result, ensure_ascii=sys.stdout.isatty()) + "\n")


@batch_app.command("cancel")
def cancel_batch(context: typer.Context, name: Name) -> None:
    """Start nothing more of a batch, and end what is under way."""
    with _client(context) as client:
        client.cancel_batch(find_batch(client, name))


def _client(context: typer.Context) -> PlainClient:
    from assayd_client import PlainClient

    return PlainClient(context.find_root().obj)
