"""Implements the commands that list, show, follow, cancel and replay attempts, and fetch their files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from assayd.errors import RequestError, StoreError
from assayd_client import Document, PlainClient
from assayd_client.cli.options import (
    CANCELLED,
    EXIT_ERROR,
    FAILED,
    VALIDATED,
    AttemptId,
    Fields,
    Json,
    open_client,
)
from assayd_client.cli.terminal import (
    StyledLine,
    build_line,
    format_count,
    get_stdout,
    plain,
    print_json,
    shorten,
)
from assayd_client.cli.texts import to_safe_path


def extract_bundle(client: PlainClient, attempt: Document, folder: Path) -> list[Path]:
    """Write all files of an attempt's bundle to a new or empty folder, and return their paths.

    Each file is fetched separately and verified by its digest. Archives aren't unpacked.

    Raises:
        RequestError: ``extract.folder``, if the folder isn't empty or can't be written.
        StoreError: ``artifact.damaged`` or ``artifact.name``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise RequestError("extract.folder", f"{folder} is not empty")
        return [_write_artifact(client, attempt["id"], artifact, folder) for artifact in attempt["artifacts"]]
    except OSError as error:
        raise RequestError("extract.folder", f"{error.filename}: {error.strerror}") from error


def read_logs(client: PlainClient, attempt: Document, stream: str) -> bytes:
    """Return the stored bytes of a finished attempt's `stdout` or `stderr`, or empty bytes without any."""
    names = [a["name"] for a in attempt["artifacts"] if a["name"].startswith(stream)]
    return b"".join(client.artifact(attempt["id"], name) for name in names)


def _write_artifact(client: PlainClient, attempt_id: str, artifact: Document, folder: Path) -> Path:
    import hashlib

    target = folder / to_safe_path(artifact["name"])
    content = client.artifact(attempt_id, artifact["name"])
    if hashlib.sha256(content).hexdigest() != artifact["sha256"]:
        raise StoreError("artifact.damaged", f"{artifact['name']} doesn't match its digest")
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        file.write(content)
    return target


WAIT_S = 600.0
MOST_CHARS = 60


def run_again(client: PlainClient, attempt_id: str, *, key: str | None = None) -> Document:
    """Replay an attempt and wait until the replay ends.

    Calls with the same key return the same replay.
    """
    attempt = client.replay(attempt_id, wait_s=WAIT_S, idempotency_key=key)
    while attempt["state"] != "finished":
        attempt = client.attempt(attempt["id"], wait_s=WAIT_S)
    return attempt


def iter_replay_diff_lines(attempt: Document) -> Iterator[StyledLine]:
    """Yield the lines that show how a replay differs from the original attempt."""
    diff = attempt["replay_diff"]
    yield build_line((attempt["id"], "bold"), f"  replays {plain(attempt['replay_of'])}")
    if attempt["error"] is not None:
        yield build_line((f"{plain(attempt['error']['code'])}: {plain(attempt['error']['message'])}", "red"))
    if diff is None:
        yield build_line(
            ("The first attempt's results were deleted, so there is nothing to compare.", "yellow")
        )
        return
    verdicts = diff["verdict"]
    if diff["same"]:
        yield build_line(("✓ Same result", "bold green"), f": {verdicts['after']}")
        return
    number = format_count(len(diff["differences"]) + diff["more"], "difference")
    yield build_line((f"✗ {number}", "bold red"), f": {verdicts['before']} before, {verdicts['after']} now")
    for each in diff["differences"]:
        before, after = (_render_value(each["before"]), "red"), (_render_value(each["after"]), "green")
        yield build_line(f"  {plain(each['field'])}: ", before, " → ", after)
    if diff["more"]:
        yield build_line((f"  … and {diff['more']} more", "dim"))


def compute_replay_exit_code(attempt: Document) -> int:
    """Return the exit code of a replay, depending on whether both results exist and are equal."""
    if attempt["verdict"] == "cancelled":
        return CANCELLED
    diff = attempt["replay_diff"]
    if attempt["verdict"] == "error" or diff is None:
        return EXIT_ERROR
    return VALIDATED if diff["same"] else FAILED


def _render_value(value: object) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), MOST_CHARS)


def list_attempts(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    state: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Show only attempts in this state.")
    ] = None,
    verdict: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Show only attempts with this verdict.")
    ] = None,
    kind: Annotated[str | None, typer.Option(metavar="TEXT", help="Show only attempts of this kind.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="K=V", help="Show only attempts with this label.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Show only attempts since this time (RFC 3339).")
    ] = None,
    cause: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Show only attempts with this cause.")
    ] = None,
    rule: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Show only attempts with an error for this rule.")
    ] = None,
    uid: Annotated[
        int | None, typer.Option(metavar="N", help="Show only this user's attempts (operators only).")
    ] = None,
    node: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show only attempts judged by this cluster node.")
    ] = None,
    distrusted: Annotated[
        bool, typer.Option("--distrusted", help="Show only attempts whose node is distrusted.")
    ] = False,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=500, help="Show at most this many attempts.")
    ] = 50,
    wide: Annotated[
        bool, typer.Option("--wide", help="Show all labels and the rules for all errors.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List attempts, newest first."""
    with open_client(context) as client:
        page = client.attempts(
            state=state,
            verdict=verdict,
            kind=kind,
            label=label or (),
            since=since,
            cause=cause,
            rule=rule,
            uid=uid,
            node=node,
            distrusted=distrusted or None,
            limit=limit,
        )
    print_json(page) if as_json else _print_attempts(page["attempts"], wide=wide)


def _print_attempts(attempts: Sequence[Document], *, wide: bool) -> None:
    """Print a table with one row per attempt, with fewer details on a terminal unless `wide` is set."""
    from assayd_client.cli.listing import ATTEMPT_COLUMNS, build_attempt_row, build_display_attempt_row
    from assayd_client.cli.terminal import print_table

    screen = get_stdout()
    today = _get_today_iso()
    rows = [
        build_display_attempt_row(attempt, today, wide=wide)
        if screen.is_terminal
        else build_attempt_row(attempt)
        for attempt in attempts
    ]
    print_table(screen, ATTEMPT_COLUMNS, rows)


def show(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    attempt_id: AttemptId,
    form: Annotated[
        str | None, typer.Option(metavar="NAME", help="Print the report in this kind-specific form.")
    ] = None,
    steps: Annotated[bool, typer.Option("--steps", help="Print the steps (same as --form steps).")] = False,
    code: Annotated[bool, typer.Option("--code", help="Print only the submitted code.")] = False,
    as_json: Json = False,
    fields: Fields = None,
) -> None:
    """Show an attempt, its report, and its repair chain."""
    from assayd_client.cli.ids import resolve_attempt_id as find
    from assayd_client.cli.kinds import AttemptView, get_form_printer
    from assayd_client.cli.validate import print_attempt, print_code

    form = "steps" if steps else form
    as_json = as_json or fields is not None
    with open_client(context) as client:
        attempt = client.attempt(find(client, attempt_id))
        if code:
            print_code(client, attempt)
            return
        if form is not None:
            get_form_printer(attempt["kind"], form)(
                AttemptView(client=client, attempt=attempt, as_json=as_json)
            )
            return
        print_attempt(attempt, as_json=as_json, fields=fields)
        if not as_json and (attempt["verdict"] == "failed" or attempt["parent_id"] is not None):
            from assayd_client.cli.repair import show_chain

            show_chain(client, attempt)


def logs(
    context: typer.Context,
    attempt_id: AttemptId,
    stream: Annotated[
        str, typer.Option(metavar="stdout|stderr|both", help="Print only this output stream.")
    ] = "both",
) -> None:
    """Print the code's output; follow it while the attempt runs."""
    from assayd_client.cli.ids import resolve_attempt_id as find

    if stream not in {"stdout", "stderr", "both"}:
        raise RequestError("usage", "--stream must be stdout, stderr or both")
    wanted = ("stdout", "stderr") if stream == "both" else (stream,)
    with open_client(context) as client:
        attempt = client.attempt(find(client, attempt_id))
        if attempt["state"] != "finished":
            told = client.events(attempt["id"])
            texts = (event.body.get("text", "") for event in told if event.kind in wanted)
        else:
            texts = (read_logs(client, attempt, name).decode("utf-8", "replace") for name in wanted)
        for text in texts:
            sys.stdout.write(plain(text) if sys.stdout.isatty() else text)
            sys.stdout.flush()


def events(
    context: typer.Context,
    attempt_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]", help="Attempt: id, unique id prefix, or `last`. Default: all attempts."
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow all attempts; this is the default without an ID.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Follow the events of one attempt until its verdict, or of all attempts."""
    from assayd_client.cli.ids import resolve_attempt_id as find
    from assayd_client.cli.listing import print_events

    if follow and attempt_id is not None:
        raise RequestError(
            "usage",
            "--follow can't be combined with an ID: a single attempt is always followed until its verdict",
        )
    with open_client(context) as client:
        told = client.all_events() if attempt_id is None else client.events(find(client, attempt_id))
        print_events(told, as_json=as_json, with_id=attempt_id is None)


def cancel(context: typer.Context, attempt_id: AttemptId) -> None:
    """Cancel an attempt."""
    from assayd_client.cli.ids import resolve_attempt_id as find

    with open_client(context) as client:
        client.cancel(find(client, attempt_id))


def replay(context: typer.Context, attempt_id: AttemptId, as_json: Json = False) -> None:
    """Rerun a finished attempt's submission and show differences; exits with status 1 if there are any."""
    from assayd_client.cli.ids import resolve_attempt_id as find

    with open_client(context) as client:
        attempt = run_again(client, find(client, attempt_id))
    if as_json:
        print_json(attempt)
    else:
        get_stdout().lines(iter_replay_diff_lines(attempt))
    raise typer.Exit(compute_replay_exit_code(attempt))


def artifacts(
    context: typer.Context,
    attempt_id: AttemptId,
    extract: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the files into a new or empty folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List or fetch the files in an attempt's bundle."""
    from assayd_client.cli.ids import resolve_attempt_id as find
    from assayd_client.cli.listing import ARTIFACT_COLUMNS, build_artifact_row
    from assayd_client.cli.terminal import print_table

    with open_client(context) as client:
        attempt = client.attempt(find(client, attempt_id))
        if extract is not None:
            for path in extract_bundle(client, attempt, extract):
                print(path)
            return
    if as_json:
        print_json(attempt["artifacts"])
        return
    screen = get_stdout()
    rows = [build_artifact_row(artifact, whole=not screen.is_terminal) for artifact in attempt["artifacts"]]
    print_table(screen, ARTIFACT_COLUMNS, rows)


def _get_today_iso() -> str:
    import time

    return time.strftime("%Y-%m-%d", time.gmtime())
