"""What the verbs on attempts do; `verbs` says what each takes. Each returns the exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from assayd.errors import RequestError
from assayd_client import PlainClient, Target
from assayd_client.cli.exits import VALIDATED
from assayd_client.cli.terminal import out, plain, print_json


def validate(  # noqa: PLR0913  (one parameter per option)
    daemon: Target,
    *,
    kind: str,
    files: Sequence[Path],
    input_file: Path | None,
    sample_paths: Sequence[str],
    policy: str | None,
    settings: Sequence[str],
    labels: Sequence[str],
    options: Sequence[str],
    sample_rows: bool,
    cases: Path | None,
    intent: str | None,
    repair: str | None,
    out: Path | None,
    in_place: bool,
    webhook: str | None,
    as_json: bool,
    fields: str | None,
    retry_context: bool,
    sarif: Path | None,
    junit: Path | None,
    watch: bool,
    form: str | None,
    as_yaml: bool,
) -> int:
    """Validate files and show the report; with `watch`, again at every save."""
    from assayd_client.cli.validate import ValidateRequest
    from assayd_client.cli.validating import ReportFiles, Shown, validate_once
    from assayd_client.cli.written import Written

    request = ValidateRequest(
        kind=kind,
        files=files,
        input=input_file,
        sample_paths=sample_paths,
        policy=policy,
        settings=settings,
        labels=labels,
        options=[*options, "sample_rows=true"] if sample_rows else options,
        cases=cases,
        intent=intent,
        webhook=webhook,
    )
    shown = Shown(
        as_json=as_json or fields is not None,
        fields=fields,
        retry_context=retry_context,
        form="yaml" if as_yaml else form,
        reports=ReportFiles(sarif=sarif, junit=junit),
    )
    written = Written(out=out, in_place=in_place)
    written.require_possible(repair, files)
    if not watch:
        return validate_once(daemon, request, repair, shown, written)
    from assayd_client.cli.watch import watch as watch_files

    watched = [*files, *(path for path in (input_file, cases) if path is not None)]
    return watch_files(
        lambda: validate_once(daemon, request, repair, shown, written), watched, clear=sys.stdout.isatty()
    )


def list_attempts(  # noqa: PLR0913  (one parameter per filter)
    daemon: Target,
    *,
    state: str | None,
    verdict: str | None,
    kind: str | None,
    label: Sequence[str],
    since: str | None,
    cause: str | None,
    rule: str | None,
    uid: int | None,
    limit: int,
    wide: bool,
    as_json: bool,
) -> int:
    """List attempts, newest first."""
    with PlainClient(daemon) as client:
        page = client.attempts(
            state=state,
            verdict=verdict,
            kind=kind,
            label=label,
            since=since,
            cause=cause,
            rule=rule,
            uid=uid,
            limit=limit,
        )
    if as_json:
        print_json(page)
        return VALIDATED
    from assayd_client.cli.listing import ATTEMPT_HEADS, attempt_row, attempt_row_for_people
    from assayd_client.cli.table import print_table

    screen = out()
    today = _today()
    rows = [
        attempt_row_for_people(attempt, today, wide=wide) if screen.is_terminal else attempt_row(attempt)
        for attempt in page["attempts"]
    ]
    print_table(screen, ATTEMPT_HEADS, rows)
    return VALIDATED


def show(  # noqa: PLR0913  (one parameter per option)
    daemon: Target,
    *,
    attempt_id: str,
    form: str | None,
    steps: bool,
    code: bool,
    as_json: bool,
    fields: str | None,
) -> int:
    """Show an attempt and its report, and the repair that it belongs to, attempt by attempt."""
    from assayd_client.cli.ids import attempt_id as find
    from assayd_client.cli.kinds import ShownAttempt, form_of
    from assayd_client.cli.validating import print_attempt
    from assayd_client.cli.written import print_code

    form = "steps" if steps else form
    as_json = as_json or fields is not None
    with PlainClient(daemon) as client:
        attempt = client.attempt(find(client, attempt_id))
        if code:
            print_code(client, attempt)
            return VALIDATED
        if form is not None:
            form_of(attempt["kind"], form)(ShownAttempt(client=client, attempt=attempt, as_json=as_json))
            return VALIDATED
        print_attempt(attempt, as_json=as_json, fields=fields)
        if not as_json and (attempt["verdict"] == "failed" or attempt["parent_id"] is not None):
            from assayd_client.cli.repair import show_chain

            show_chain(client, attempt)
    return VALIDATED


def logs(daemon: Target, *, attempt_id: str, stream: str) -> int:
    """Print what the code wrote; of an attempt that runs, as it is written."""
    from assayd_client.cli.artifacts import logs as read_logs
    from assayd_client.cli.ids import attempt_id as find

    if stream not in {"stdout", "stderr", "both"}:
        raise RequestError("usage", "--stream is stdout, stderr or both")
    wanted = ("stdout", "stderr") if stream == "both" else (stream,)
    with PlainClient(daemon) as client:
        attempt = client.attempt(find(client, attempt_id))
        if attempt["state"] != "finished":
            told = client.events(attempt["id"])
            texts = (event.body.get("text", "") for event in told if event.kind in wanted)
        else:
            texts = (read_logs(client, attempt, name).decode("utf-8", "replace") for name in wanted)
        for text in texts:
            sys.stdout.write(plain(text) if sys.stdout.isatty() else text)
            sys.stdout.flush()
    return VALIDATED


def events(daemon: Target, *, attempt_id: str | None, follow: bool, as_json: bool) -> int:
    """Follow what happens to an attempt, up to its verdict; or to all attempts."""
    from assayd_client.cli.ids import attempt_id as find
    from assayd_client.cli.listing import print_events

    if follow and attempt_id is not None:
        raise RequestError("usage", "--follow is for all attempts; an attempt is followed to its verdict")
    with PlainClient(daemon) as client:
        told = client.all_events() if attempt_id is None else client.events(find(client, attempt_id))
        print_events(told, as_json=as_json, with_id=attempt_id is None)
    return VALIDATED


def cancel(daemon: Target, *, attempt_id: str) -> int:
    """Stop an attempt."""
    from assayd_client.cli.ids import attempt_id as find

    with PlainClient(daemon) as client:
        client.cancel(find(client, attempt_id))
    return VALIDATED


def replay(daemon: Target, *, attempt_id: str, as_json: bool) -> int:
    """Run a finished attempt's submission again, and show what differs."""
    from assayd_client.cli.ids import attempt_id as find
    from assayd_client.cli.replay import exit_code, render_diff, run

    with PlainClient(daemon) as client:
        attempt = run(client, find(client, attempt_id))
    if as_json:
        print_json(attempt)
    else:
        out().lines(render_diff(attempt))
    return exit_code(attempt)


def artifacts(daemon: Target, *, attempt_id: str, extract: Path | None, as_json: bool) -> int:
    """List the files of an attempt's bundle, or fetch them."""
    from assayd_client.cli.artifacts import extract as write_all
    from assayd_client.cli.ids import attempt_id as find
    from assayd_client.cli.listing import ARTIFACT_HEADS, artifact_row
    from assayd_client.cli.table import print_table

    with PlainClient(daemon) as client:
        attempt = client.attempt(find(client, attempt_id))
        if extract is not None:
            for path in write_all(client, attempt, extract):
                print(path)
            return VALIDATED
    if as_json:
        print_json(attempt["artifacts"])
        return VALIDATED
    screen = out()
    rows = [artifact_row(artifact, whole=not screen.is_terminal) for artifact in attempt["artifacts"]]
    print_table(screen, ARTIFACT_HEADS, rows)
    return VALIDATED


def kinds(daemon: Target, *, kind: str | None, as_json: bool) -> int:
    """List the kinds that the daemon takes, or describe one."""
    from assayd_client.cli.kinds import KIND_HEADS, describe
    from assayd_client.cli.screen import line
    from assayd_client.cli.table import print_table

    with PlainClient(daemon) as client:
        found = client.kinds() if kind is None else client.kind(kind)
    if as_json:
        print_json(found)
    elif kind is None:
        rows = [
            [one["kind"], one["default_policy"], one["image"], " ".join(one["stages"])]
            for one in found["kinds"]
        ]
        print_table(out(), KIND_HEADS, rows)
    else:
        out().lines(line(plain(said), hang=None) for said in describe(found))
    return VALIDATED


def version(daemon: Target) -> int:
    """Print the version."""
    from assayd import __version__

    print(f"assay {__version__}")
    return VALIDATED


def _today() -> str:
    import time

    return time.strftime("%Y-%m-%d", time.gmtime())
