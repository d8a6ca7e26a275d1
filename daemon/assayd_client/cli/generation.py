"""Implements `assay generation …`, which shows, continues and cancels generations."""

from __future__ import annotations

from typing import Annotated

import typer

from assayd_client import Document, PlainClient
from assayd_client.cli.exits import FAILED
from assayd_client.cli.generate import OF_OUTCOME, described, failure_of, next_steps, wait
from assayd_client.cli.ids import attempt_id as find_attempt
from assayd_client.cli.ids import generation_id as find_generation
from assayd_client.cli.options import Json, open_client
from assayd_client.cli.repair import print_step
from assayd_client.cli.terminal import plain, print_json, print_result

generation_app = typer.Typer(
    help="List and show generations, and continue one with a hint.", no_args_is_help=True
)

Id = Annotated[str, typer.Argument(metavar="ID", help="Generation: id, unique id prefix, or `last`.")]


@generation_app.command("list")
def list_generations(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Show at most this many generations.")] = 20,
    as_json: Json = False,
) -> None:
    """List generations, newest first."""
    with open_client(context) as client:
        page = client.generations(limit=limit)
    heads = ("id", "kind", "provider", "outcome", "answers", "started")
    print_result(page, heads, map(_generation_row, page["generations"]), as_json=as_json)


@generation_app.command("show")
def show(context: typer.Context, generation_id: Id, as_json: Json = False) -> None:
    """Show a generation: its answers, why each failed, and its outcome."""
    with open_client(context) as client:
        _print_generation(client, client.generation(find_generation(client, generation_id)), as_json=as_json)


@generation_app.command("prompt")
def show_prompt(
    context: typer.Context,
    generation_id: Id,
    number: Annotated[int, typer.Argument(metavar="N", min=1, help="Answer number, starting at 1.")] = 1,
    as_json: Json = False,
) -> None:
    """Show one answer and its prompt."""
    with open_client(context) as client:
        step = client.generation_step(find_generation(client, generation_id), number)
    if as_json:
        print_json(step)
    else:
        print_step(step)


@generation_app.command("hint")
def give_hint(
    context: typer.Context,
    generation_id: Id,
    hint: Annotated[str, typer.Argument(metavar="TEXT", help="Pass this hint to the provider.")],
    attempt: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Continue from this edited attempt. Default: the last answer."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Continue a finished generation with a hint, wait, and show it."""
    with open_client(context) as client:
        found = find_generation(client, generation_id)
        edited = None if attempt is None else find_attempt(client, attempt)
        ended = wait(client, client.hint_generation(found, hint, attempt_id=edited), tell=not as_json)
        _print_generation(client, ended, as_json=as_json)
    raise typer.Exit(OF_OUTCOME.get(ended["outcome"], FAILED))


@generation_app.command("cancel")
def cancel(context: typer.Context, generation_id: Id) -> None:
    """Cancel a generation and its running attempt."""
    with open_client(context) as client:
        found = find_generation(client, generation_id)
        client.cancel_generation(found)
    print(f"Cancelling {found}")


def _generation_row(generation: Document) -> tuple[str, ...]:
    outcome = generation["outcome"] or generation["state"]
    answers = str(len(generation["attempts"]))
    return (
        generation["id"],
        generation["kind"],
        generation["provider"],
        outcome,
        answers,
        generation["started_at"],
    )


def _print_generation(client: PlainClient, generation: Document, *, as_json: bool) -> None:
    if as_json:
        print_json(generation)
        return
    print(f"Request: {plain(' '.join(generation['intent'].split()))}")
    for line in [*described(generation, None), *next_steps(generation, failure_of(client, generation))]:
        print(line)
