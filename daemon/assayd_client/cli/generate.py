"""Implements `assay generate` and `assay generation …`."""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from assayd.errors import RequestError
from assayd_client import Document, PlainClient
from assayd_client.cli.ids import resolve_attempt_id as find_attempt
from assayd_client.cli.ids import resolve_generation_id as find_generation
from assayd_client.cli.options import (
    CANCELLED,
    EXIT_ERROR,
    FAILED,
    VALIDATED,
    Json,
    get_selected_daemon,
    open_client,
)
from assayd_client.cli.parts import import_part
from assayd_client.cli.repair import iter_failure_lines, print_step
from assayd_client.cli.repair import iter_offer_lines as described_offer
from assayd_client.cli.submitting import (
    SamplePath,
    SamplePaths,
    SampleTree,
    cancel_on_interrupt,
    collect_sample_paths,
    parse_object_option,
    parse_pair_options,
    parse_settings,
    read_files,
    read_input,
    read_text_option,
)
from assayd_client.cli.terminal import plain, print_json, print_result
from assayd_client.cli.texts import fetch_stored_submission, get_submission_texts, write_texts

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MAX_NAME_WORDS = 4
_CHARS = 40
_FILLER_TEXT = """
a an and are as at be by can compute each every find for from get give gives has have i in into is it its me
must of on or out please return should take that the their them then this to what when which with write
"""
_FILLERS = frozenset(_FILLER_TEXT.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveTarget:
    """The name (chosen or proposed) under which to save the result, and the optional file."""

    name: str
    out: Path | None = None


def propose_name(intent: str, kind: str) -> str:
    """Return a name that consists of the first meaningful words, e.g. ``quarter_folder_start_end``."""
    words = [word for word in re.findall(r"[a-z0-9]+", intent.lower()) if word not in _FILLERS]
    name = "_".join(words[:_MAX_NAME_WORDS])[:_CHARS].strip("_")
    return name if NAME.fullmatch(name) else kind


def find_name_problem(name: str) -> str:
    """Return the reason why a name is invalid, or an empty string if the name is valid."""
    return "" if NAME.fullmatch(name) else "Use a-z, 0-9, _ and -, at most 64 characters."


EXIT_CODE_BY_OUTCOME = {"validated": VALIDATED, "cancelled": CANCELLED, "provider_failed": EXIT_ERROR}
_SCHEMA_SUFFIX = ".sql"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """The command-line options that form the context of a generation."""

    sample_paths: Sequence[str]
    files: Sequence[Path]
    database: Path | None
    examples: Sequence[str]
    inputs: Path | None
    options: Sequence[str]
    sample_rows: bool = False


KindName = Annotated[str, typer.Argument(help="Kind to generate, e.g. extractor.")]
Words = Annotated[
    str,
    typer.Argument(
        metavar="[WORDS|@FILE]",
        help="Request in natural language; if it's missing, the terminal screens ask for it.",
    ),
]
Provider = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Use this provider. Default: the only provider that can write code."),
]
Database = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Use this SQLite file, or this schema (.sql).")
]
SampleRows = Annotated[
    bool,
    typer.Option("--sample-rows", help="Show the provider three rows from each table in --database."),
]
Files = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Provide this file or folder to the code (repeatable)."),
]
Examples = Annotated[
    list[str] | None,
    typer.Option(metavar="J", help="Require this case, a JSON object, to pass (repeatable)."),
]
Input = Annotated[
    Path | None,
    typer.Option(
        "--input", metavar="F.json", help="Read the inputs from this file, which contains a JSON object."
    ),
]
ContextFields = Annotated[
    list[str] | None, typer.Option(metavar="K=V", help="Set another context field; V is JSON or text.")
]
Policy = Annotated[
    str | None, typer.Option(metavar="NAME", help="Use this profile. Default: the kind's profile.")
]
MaxAttempts = Annotated[
    int | None, typer.Option(min=1, max=10, help="Accept at most this many answers from the provider.")
]
Labels = Annotated[
    list[str] | None, typer.Option(metavar="K=V", help="Add this label to the generated attempts.")
]
Webhook = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Send a webhook message to this URL when the generation ends."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write the code to this file, or to this folder if there are several files."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Approve the code once it is validated.")]
ApprovedName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Approve the code under this name. Default: the file name of --out without its extension.",
    ),
]


def generate(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    kind: KindName,
    words: Words = "",
    provider: Provider = None,
    sample_path: SamplePath = None,
    listed_paths: SamplePaths = None,
    sample_tree: SampleTree = None,
    database: Database = None,
    sample_rows: SampleRows = False,
    file: Files = None,
    example: Examples = None,
    input_file: Input = None,
    option: ContextFields = None,
    policy: Policy = None,
    max_attempts: MaxAttempts = None,
    label: Labels = None,
    webhook: Webhook = None,
    out: Out = None,
    yes: Yes = False,
    name: ApprovedName = None,
    as_json: Json = False,
) -> None:
    """Generate code from a request, validate and repair it, and approve it.

    In a terminal, this command opens screens unless you pass --yes or --json.
    """
    approved_as = _require_approval_name(name, out) if yes else None
    given = GenerateOptions(
        sample_paths=collect_sample_paths(sample_path, listed_paths, sample_tree, file or ()),
        files=file or (),
        database=database,
        sample_rows=sample_rows,
        examples=example or (),
        inputs=input_file,
        options=option or (),
    )
    request: dict[str, Any] = {
        "kind": kind,
        "intent": read_text_option(words) if words else "",
        "policy": policy,
        "provider": provider,
        "max_attempts": max_attempts,
        "labels": parse_pair_options(label or (), "--label") or None,
        "webhook": webhook,
    }
    daemon = get_selected_daemon(context)
    if not yes and not as_json and is_on_terminal():
        run_screens = import_part("assayd_screens.commands:run_screens", "generate", "pass --yes or --json")
        wanted = name or (out.stem if out is not None else "")
        raise typer.Exit(run_screens(daemon, request, given, name=wanted, out=out))
    if not words:
        raise RequestError("usage", "the request is missing; run: assay generate KIND WORDS")
    request["context"] = read_context(kind, given)
    with PlainClient(daemon) as client:
        generation = wait_for_generation(client, client.generate(**request), tell=not as_json)
        generation, submitted = _save_result(client, generation, out, approved_as)
        failure = find_failure(client, generation)
    if as_json:
        print_json({**generation, **_build_texts_document(submitted), **failure})
    else:
        shown = submitted if out is None else None
        print("\n".join((*describe_generation(generation, shown), *iter_next_steps(generation, failure))))
    raise typer.Exit(EXIT_CODE_BY_OUTCOME.get(generation["outcome"], FAILED))


def _save_result(
    client: PlainClient, generation: Document, out: Path | None, approved_as: str | None
) -> tuple[Document, Document | None]:
    """Write and approve the validated submission, and return the generation and the submission."""
    if generation["attempt_id"] is None or generation["outcome"] != "validated":
        return generation, None
    submitted = fetch_stored_submission(client, client.attempt(generation["attempt_id"]))
    if submitted is not None and out is not None:
        write_texts(get_submission_texts(submitted), out)
    if submitted is not None and approved_as is not None:
        client.approve_generation(generation["id"], approved_as)
        generation = client.generation(generation["id"])
    return generation, submitted


def is_on_terminal() -> bool:
    """Return whether the standard streams are all terminals."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def read_context(kind: str, given: GenerateOptions) -> dict[str, object]:
    """Return a generation's context from the command-line options, in the format of the kind.

    Files are placed in the payload in the same way as by `assay validate`.

    Raises: RequestError, with the name of the option or file that causes the error.
    """
    from assayd.ports.command_line import encode_payload_value
    from assayd_client.cli.kinds import get_command_line

    with _name_error_field("options"):
        context: dict[str, object] = dict(parse_settings(given.options, "--option"))
    if given.sample_paths:
        context["sample_paths"] = list(given.sample_paths)
    if given.files:
        placed = get_command_line(kind).container_path
        with _name_error_field("files"):
            read = read_files(given.files)
        context["files"] = {
            placed(name): encode_payload_value(content) for name, (_, content) in read.items()
        }
    if given.examples:
        with _name_error_field("cases"):
            context["cases"] = [parse_object_option(text, "--example") for text in given.examples]
    with _name_error_field("inputs"):
        inputs = read_input(given.inputs)
    if inputs is not None:
        context["inputs"] = dict(inputs)
    if given.database is not None:
        with _name_error_field("database"):
            [(_, content)] = read_files([given.database]).values()
        is_schema = given.database.suffix == _SCHEMA_SUFFIX
        database = {"schema_sql": content.decode("utf-8", "replace")} if is_schema else None
        rows = {"sample_rows": True} if given.sample_rows else {}
        context["database"] = database or {"base64": b64encode(content).decode(), **rows}
    return context


@contextmanager
def _name_error_field(part: str) -> Iterator[None]:
    """Set `context.PART` as the field of RequestErrors that the body raises."""
    try:
        yield
    except RequestError as problem:
        raise RequestError(problem.code, problem.message, field=f"context.{part}") from problem


def wait_for_generation(client: PlainClient, generation: Document, *, tell: bool) -> Document:
    """Wait for the end of a generation, and return it. A keyboard interrupt cancels the generation."""
    told = 0
    with cancel_on_interrupt(client.cancel_generation, generation["id"], "generation "):
        for event in client.generation_events(generation["id"]):
            if event.kind in {"stage", "answer"}:
                continue
            if tell and len(event.body["attempts"]) > told:
                told = len(event.body["attempts"])
                print(f"assay: answer {told} of at most {event.body['max_attempts']}", file=sys.stderr)
    return client.generation(generation["id"])


def describe_generation(generation: Document, submission: Document | None) -> Iterator[str]:
    """Yield the lines that describe a generation.

    The code is included unless it is written to a file.
    """
    if submission is not None and generation["outcome"] == "validated":
        for name, text in get_submission_texts(submission).items():
            yield from ([f"==> {plain(name)} <=="] if name else [])
            yield plain(text.rstrip("\n"))
    yield f"{generation['id']}  {plain(generation['kind'])} · {plain(generation['provider'])}"
    for attempt in generation["attempts"]:
        asked = attempt["form"] == "question"
        unused = "question" if asked else "no submission"
        verdict = attempt["verdict"] or ("duplicate" if attempt["duplicate"] else unused)
        yield f"{attempt['number']}. {verdict}  {attempt['attempt_id'] or ''}".rstrip()
        if attempt["original_error"]:
            yield from (f"   {said}" for said in iter_failure_lines(attempt["original_error"]))
        yield (
            f"   {plain(attempt['patched_code'])}" if asked else f"   reason: {plain(attempt['fix_reason'])}"
        )
    if generation.get("input_tokens") is not None:
        yield f"Tokens: {generation['input_tokens']} in, {generation['output_tokens']} out"
    detail = f" ({plain(generation['detail'])})" if generation["detail"] else ""
    yield f"Generation: {generation['outcome'] or generation['state']}{detail}"
    approved = generation["approved"]
    if approved is not None:
        yield f"Approved: {approved['name']}@{approved['version']}"
    elif generation["outcome"] == "validated":
        yield f"Approve it: assay library approve {generation['attempt_id']} NAME"


def find_failure(client: PlainClient, generation: Document) -> Document:
    """Return the last error of a failed generation and the rules that its repair offers.

    The values are `last_error` and the `fallback` of the repair `repair_id`. Each value is None if it doesn't
    exist.
    """
    found: Document = {"last_error": None, "repair_id": None, "fallback": None}
    attempt_id = generation["attempt_id"]
    if attempt_id is None or generation["outcome"] in {None, "validated", "cancelled"}:
        return found
    report = client.attempt(attempt_id)["report"]
    found["last_error"] = (report or {}).get("retry_context")
    for repair in client.repairs_of(attempt_id)["repairs"]:
        state = client.repair_state(repair["id"])
        if state["fallback"] is not None:
            found |= {"repair_id": state["id"], "fallback": state["fallback"]}
    return found


def iter_next_steps(generation: Document, failure: Document) -> Iterator[str]:
    """Yield the last lines for a failed generation: its error, the offered rules, and next steps."""
    if generation["outcome"] in {None, "validated", "cancelled"}:
        return
    if failure["last_error"]:
        yield f"The last attempt {plain(' '.join(iter_failure_lines(failure['last_error'])))}"
    if generation["attempt_id"] is not None:
        yield f"Show its report: assay show {generation['attempt_id']}"
    if failure["fallback"] is not None:
        yield from described_offer(failure["repair_id"], failure["fallback"])
    if generation["outcome"] == "question":
        yield f'Answer the question: assay generation hint {generation["id"]} "TEXT"'
        return
    yield f'Try again with a hint: assay generation hint {generation["id"]} "TEXT"'


def _build_texts_document(submission: Document | None) -> Document:
    """Return a single text as `code`, and several texts as `files` by name."""
    texts = get_submission_texts(submission) if submission is not None else {}
    return {"code": texts.pop("", None), "files": texts or None}


def _require_approval_name(name: str | None, out: Path | None) -> str:
    """Return the name for the approval before any request is sent to the daemon.

    Raises: RequestError ``library.name``, if the name is missing or invalid.
    """
    wanted = name or (out.stem if out is not None else "")
    if not NAME.fullmatch(wanted):
        message = f"--yes needs a name of a-z, 0-9, _ and -, not {wanted!r}; pass --name or --out"
        raise RequestError("library.name", message, field="name")
    return wanted


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
    print_result(page, heads, map(_build_generation_row, page["generations"]), as_json=as_json)


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
        ended = wait_for_generation(
            client, client.hint_generation(found, hint, attempt_id=edited), tell=not as_json
        )
        _print_generation(client, ended, as_json=as_json)
    raise typer.Exit(EXIT_CODE_BY_OUTCOME.get(ended["outcome"], FAILED))


@generation_app.command("cancel")
def cancel(context: typer.Context, generation_id: Id) -> None:
    """Cancel a generation and its running attempt."""
    with open_client(context) as client:
        found = find_generation(client, generation_id)
        client.cancel_generation(found)
    print(f"Cancelling {found}")


def _build_generation_row(generation: Document) -> tuple[str, ...]:
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
    for line in [
        *describe_generation(generation, None),
        *iter_next_steps(generation, find_failure(client, generation)),
    ]:
        print(line)
