"""The commands of `assay`: what each is called, what it takes, and which part does it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assayd.cli.batch_app import batch_app
from assayd.cli.generate import generate_app
from assayd.cli.images_app import images_app
from assayd.cli.kinds import KindsGroup, kinds_app
from assayd.cli.library import library_app
from assayd.cli.repair import repair_app, show_chain
from assayd.cli.upkeep_app import upkeep_app

if TYPE_CHECKING:
    from assayd.cli.origin import Origin
    from assayd.client import PlainClient

app = typer.Typer(
    cls=KindsGroup,
    help="Validate untrusted code in throwaway containers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
policy_app = typer.Typer(help="Look at profiles, and check files of them.", no_args_is_help=True)
app.add_typer(upkeep_app)  # its commands are the program's own
app.add_typer(kinds_app)  # and so are these
app.add_typer(generate_app)
app.add_typer(library_app, name="library", rich_help_panel=None)
app.add_typer(batch_app, name="batch", rich_help_panel=None)
app.add_typer(repair_app, name="repair", rich_help_panel=None)
app.add_typer(policy_app, name="policy", rich_help_panel=None)
app.add_typer(images_app, name="images", rich_help_panel=None)

Id = Annotated[str, typer.Argument(metavar="ID", help="The attempt: its id, the beginning of it, or `last`.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def start(
    context: typer.Context,
    socket: Annotated[
        str | None, typer.Option(metavar="PATH", help="The daemon's socket; else ASSAY_SOCKET.")
    ] = None,
) -> None:
    """Validate untrusted code in throwaway containers."""
    context.obj = socket


@app.command()
def validate(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    kind: Annotated[str, typer.Argument(help="What it is, e.g. extractor.")],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]…", help="Files or folders; - is standard input.")
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", metavar="F.json", help="Inputs, as a JSON object.")
    ] = None,
    sample_path: Annotated[
        list[str] | None, typer.Option(metavar="P", help="A path to try the code on.")
    ] = None,
    policy: Annotated[str | None, typer.Option(metavar="NAME", help="Profile; else the kind's own.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="A.B=V", help="Tighten a limit, e.g. resources.timeout_s=5."),
    ] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="K=V", help="Mark the attempt.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="K=V", help="An option of the kind itself.")
    ] = None,
    cases: Annotated[
        Path | None, typer.Option(metavar="F.json", help="What it has to give for what, as a JSON array.")
    ] = None,
    intent: Annotated[
        str | None, typer.Option(metavar="TEXT|@FILE", help="What was asked for, in words.")
    ] = None,
    repair: Annotated[
        str | None, typer.Option(metavar="PROVIDER", help="Have it repaired if it fails, e.g. by `rules`.")
    ] = None,
    as_json: Json = False,
    form: Annotated[
        str | None, typer.Option(metavar="NAME", help="Print the report in a form that the kind has.")
    ] = None,
    as_yaml: Annotated[bool, typer.Option("--yaml", help="Short for --form yaml.")] = False,
) -> None:
    """Validate files and show the report."""
    from assayd.cli.exits import OF_VERDICT
    from assayd.cli.kinds import ShownAttempt, form_of
    from assayd.cli.origin import UNKNOWN
    from assayd.cli.repair import follow_repairs
    from assayd.cli.validate import ValidateRequest, build_submission, run

    form = "yaml" if as_yaml else form
    print_form = None if form is None else form_of(kind, form)
    submission, origin = build_submission(
        ValidateRequest(
            kind=kind,
            files=files or (),
            input=input_file,
            sample_paths=sample_path or (),
            policy=policy,
            settings=setting or (),
            labels=label or (),
            options=option or (),
            cases=cases,
            intent=intent,
        )
    )
    if repair is not None:
        submission["repair"] = {"provider": repair}
    with _client(context) as client:
        attempt = run(client, submission, show_progress=sys.stderr.isatty() and not (as_json or form))
        if repair is not None and attempt["verdict"] == "failed":
            attempt = follow_repairs(client, attempt, show=not (as_json or form))
            origin = UNKNOWN  # it is another text by now
        if print_form is not None:
            print_form(ShownAttempt(client=client, attempt=attempt, as_json=as_json))
    if print_form is None:
        _print_attempt(attempt, as_json=as_json, origin=origin)
    raise typer.Exit(OF_VERDICT[attempt["verdict"]])


@app.command("list")
def list_attempts(  # noqa: PLR0913, PLR0917  (one parameter per filter)
    context: typer.Context,
    state: Annotated[str | None, typer.Option(help="Only in this state.")] = None,
    verdict: Annotated[str | None, typer.Option(help="Only with this verdict.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only of this kind.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="K=V", help="Only with this label.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only from this time on (RFC 3339).")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many.")] = 50,
    as_json: Json = False,
) -> None:
    """List attempts, newest first."""
    from assayd.cli.listing import ATTEMPT_HEADS, attempt_row, print_table
    from assayd.cli.terminal import out, print_json

    with _client(context) as client:
        page = client.attempts(state=state, verdict=verdict, kind=kind, label=label, since=since, limit=limit)
    if as_json:
        print_json(page)
    else:
        screen = out()
        today = f"{datetime.now(UTC):%Y-%m-%d}" if screen.is_terminal else None
        print_table(screen, ATTEMPT_HEADS, [attempt_row(attempt, today) for attempt in page["attempts"]])


@app.command()
def show(
    context: typer.Context,
    attempt_id: Id,
    form: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show it in a form that its kind has.")
    ] = None,
    steps: Annotated[bool, typer.Option("--steps", help="Short for --form steps.")] = False,
    as_json: Json = False,
) -> None:
    """Show an attempt and its report, and the repair that it belongs to, attempt by attempt."""
    from assayd.cli.ids import attempt_id as find_attempt
    from assayd.cli.kinds import ShownAttempt, form_of

    form = "steps" if steps else form
    with _client(context) as client:
        attempt = client.attempt(find_attempt(client, attempt_id))
        if form is not None:
            form_of(attempt["kind"], form)(ShownAttempt(client=client, attempt=attempt, as_json=as_json))
            return
        _print_attempt(attempt, as_json=as_json)
        if not as_json:
            show_chain(client, attempt)


@app.command()
def logs(
    context: typer.Context,
    attempt_id: Id,
    stream: Annotated[str, typer.Option(metavar="stdout|stderr|both", help="Which output.")] = "both",
) -> None:
    """Print what the code wrote; of an attempt that runs, as it is written."""
    from assayd.cli.artifacts import logs as read_logs
    from assayd.cli.ids import attempt_id as find_attempt
    from assayd.cli.terminal import plain
    from assayd.errors import RequestError

    if stream not in {"stdout", "stderr", "both"}:
        raise RequestError("usage", "--stream is stdout, stderr or both")
    wanted = ("stdout", "stderr") if stream == "both" else (stream,)
    with _client(context) as client:
        attempt = client.attempt(find_attempt(client, attempt_id))
        if attempt["state"] != "finished":
            texts = (
                event.body.get("text", "") for event in client.events(attempt["id"]) if event.kind in wanted
            )
        else:
            texts = (read_logs(client, attempt, name).decode("utf-8", "replace") for name in wanted)
        for text in texts:
            sys.stdout.write(plain(text) if sys.stdout.isatty() else text)
            sys.stdout.flush()


@app.command()
def events(
    context: typer.Context,
    attempt_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]", help="The attempt, by id, beginning or `last`; else all that you may see."
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow all attempts; what is done without an ID.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Follow what happens to an attempt, up to its verdict; or to all attempts."""
    from assayd.cli.ids import attempt_id as find_attempt
    from assayd.cli.listing import print_events
    from assayd.errors import RequestError

    if follow and attempt_id is not None:
        raise RequestError("usage", "--follow is for all attempts; an attempt is followed to its verdict")
    with _client(context) as client:
        told = client.all_events() if attempt_id is None else client.events(find_attempt(client, attempt_id))
        print_events(told, as_json=as_json, with_id=attempt_id is None)


@app.command()
def cancel(context: typer.Context, attempt_id: Id) -> None:
    """Stop an attempt."""
    from assayd.cli.ids import attempt_id as find_attempt

    with _client(context) as client:
        client.cancel(find_attempt(client, attempt_id))


@app.command()
def replay(context: typer.Context, attempt_id: Id, as_json: Json = False) -> None:
    """Run a finished attempt's submission again, and show what differs; 1 when something does."""
    from assayd.cli.ids import attempt_id as find_attempt
    from assayd.cli.replay import exit_code, render_diff, run
    from assayd.cli.terminal import out, print_json

    with _client(context) as client:
        attempt = run(client, find_attempt(client, attempt_id))
    if as_json:
        print_json(attempt)
    else:
        out().lines(render_diff(attempt))
    raise typer.Exit(exit_code(attempt))


@app.command()
def artifacts(
    context: typer.Context,
    attempt_id: Id,
    extract: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write them into a new or empty folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the files of an attempt's bundle, or fetch them."""
    from assayd.cli.artifacts import extract as write_all
    from assayd.cli.ids import attempt_id as find_attempt
    from assayd.cli.listing import ARTIFACT_HEADS, artifact_row, print_table
    from assayd.cli.terminal import out, print_json

    with _client(context) as client:
        attempt = client.attempt(find_attempt(client, attempt_id))
        if extract is not None:
            for path in write_all(client, attempt, extract):
                print(path)
            return
    if as_json:
        print_json(attempt["artifacts"])
        return
    screen = out()
    rows = [artifact_row(artifact, whole=not screen.is_terminal) for artifact in attempt["artifacts"]]
    print_table(screen, ARTIFACT_HEADS, rows)


@policy_app.command("list")
def list_policies(context: typer.Context, as_json: Json = False) -> None:
    """List the daemon's profiles."""
    from assayd.cli.listing import POLICY_HEADS, policy_row, print_table
    from assayd.cli.terminal import out, print_json

    with _client(context) as client:
        policies = client.policies()["policies"]
    if as_json:
        print_json(policies)
    else:
        print_table(out(), POLICY_HEADS, [policy_row(policy) for policy in policies])


@policy_app.command("show")
def show_policy(context: typer.Context, name: str, as_json: Json = False) -> None:
    """Show a profile with its effective values."""
    from assayd.cli.listing import flatten, print_table
    from assayd.cli.terminal import out, print_json

    with _client(context) as client:
        policy = client.policy(name)
    if as_json:
        print_json(policy)
    else:
        print_table(out(), ("field", "value"), flatten(policy))


@policy_app.command("check")
def check_policy(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A profile, as TOML; else all that are in use.")
    ] = None,
) -> None:
    """Check a profile, or all of them, without the daemon: problems with lines, else what is allowed."""
    from assayd.cli.exits import FAILED
    from assayd.cli.policies import allowances, check
    from assayd.tomlfile import FileError

    try:
        policies = check(file)
    except FileError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(FAILED) from error
    print(f"{file or 'all profiles'}: fine")
    for policy in policies:
        for line in allowances(policy):
            print(line)


@policy_app.command("explain")
def explain_policy(
    context: typer.Context,
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="Name of a profile.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="What submitted code would ask for.")],
    method: Annotated[str, typer.Option(metavar="M", help="The request's method.")] = "GET",
) -> None:
    """Print whether a profile of the daemon lets code reach a URL, by which rule, and what to do if not."""
    from assayd.cli.exits import FAILED
    from assayd.cli.policies import explain

    with _client(context) as client:
        policy = client.policy(profile)
    allowed, text = explain(policy, url, method)
    print(text)
    if not allowed:
        raise typer.Exit(FAILED)


@app.command()
def doctor(context: typer.Context, as_json: Json = False) -> None:
    """Examine the daemon: engine, images, limits, canary, permissions."""
    from assayd.cli.exits import TROUBLE
    from assayd.cli.listing import CHECK_HEADS, check_row, print_table
    from assayd.cli.terminal import out, print_json

    with _client(context) as client:
        checks = client.doctor()["checks"]
    if as_json:
        print_json(checks)
    else:
        print_table(out(), CHECK_HEADS, [check_row(check) for check in checks])
    if any(check["status"] == "fail" for check in checks):
        raise typer.Exit(TROUBLE)


@app.command()
def version() -> None:
    """Print the version."""
    from assayd import __version__

    print(f"assay {__version__}")


def _client(context: typer.Context) -> PlainClient:
    from assayd.client import PlainClient

    return PlainClient(context.find_root().obj)


def _print_attempt(attempt: dict[str, object], *, as_json: bool, origin: Origin | None = None) -> None:
    from assayd.cli.origin import UNKNOWN
    from assayd.cli.report import render
    from assayd.cli.terminal import out, print_json

    if as_json:
        print_json(attempt)
        return
    out().lines(render(attempt, origin or UNKNOWN))
