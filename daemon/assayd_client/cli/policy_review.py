"""Implements `assay policy try` and `assay policy suggest`, which show a profile's effects and gaps."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from assayd.errors import RequestError
from assayd_client import Document
from assayd_client.cli.policy import create_client, policy_app

_AGE = re.compile(r"(\d{1,5})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}

Since = Annotated[
    str | None,
    typer.Option(metavar="AGE|TIME", help="Use attempts since this age or time: 7d, 12h, or RFC 3339."),
]
Batch = Annotated[str | None, typer.Option(metavar="ID", help="Use only attempts of this batch.")]
Label = Annotated[list[str] | None, typer.Option(metavar="K=V", help="Use only attempts with this label.")]
OfKind = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Use only attempts of this kind.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@policy_app.command("try")
def try_policy(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="Profile name, or a TOML file.")],
    since: Since = None,
    batch: Batch = None,
    label: Label = None,
    kind: OfKind = None,
    run: Annotated[bool, typer.Option("--run", help="Run each submission again as a full attempt.")] = False,
    as_json: Json = False,
) -> None:
    """Check stored submissions against another profile; exits with status 1 if any that passed would fail."""
    from assayd_client.cli.exits import FAILED
    from assayd_client.cli.terminal import print_json

    policy, profile = _read_profile(name)
    wanted = review_query(since, batch, label, kind)
    body: Document = {}
    with create_client(context) as client:
        for event in client.try_policy(policy, profile=profile, run=run, **wanted):
            body = event.body
            if event.kind == "progress" and sys.stderr.isatty():
                print(f"\r{body['tried']} of {body['total']} tried", end="", file=sys.stderr)
    if not body:
        raise RequestError("lost", "the trial ended without a result; try again")
    if as_json:
        print_json(body)
    else:
        _print_trial(body)
    if body["would_fail"]:
        raise typer.Exit(FAILED)


@policy_app.command("suggest")
def suggest_policy(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Extend this profile. Default: the profile of the newest refusal."),
    ] = None,
    since: Since = None,
    batch: Batch = None,
    label: Label = None,
    kind: OfKind = None,
    as_json: Json = False,
) -> None:
    """Print, as TOML, the smallest profile additions that would have allowed refused code."""
    from assayd_client.cli.terminal import plain, print_json

    with create_client(context) as client:
        found = client.suggest_policy(policy, **review_query(since, batch, label, kind))
    if as_json:
        print_json(found)
        return
    print(f"# {found['helped']} of {found['seen']} refused attempts need only these additions.")
    for one in found["additions"]:
        print(plain(f"# {one['key']} {one['name']}: {_format_counts(one)}"))
    print(plain(found["toml"]), end="")
    for one in found["withheld"]:
        print(plain(f"# withheld: {one['key']} {one['name']}: {_format_counts(one)}; {one['reason']}"))


def _format_counts(one: Document) -> str:
    attempts = f"{one['count']} attempt{'s' * (one['count'] != 1)}"
    return f"{attempts}, {one['enough']} need only this one, {one['first_at'][:10]} to {one['last_at'][:10]}"


def _print_trial(trial: Document) -> None:
    from assayd_client.cli.terminal import plain

    print(
        f"{trial['policy']} ({trial['mode']}): {trial['tried']} of {trial['total']} attempts tried; "
        f"{trial['would_fail']} would fail, {trial['would_pass']} would pass, "
        f"{trial['undecided']} need a run, {trial['left_out']} not tried"
    )
    for change in trial["changes"]:
        key = f" ({change['profile_key']})" if change["profile_key"] else ""
        print(plain(f"{change['direction'].replace('_', ' ')}  {change['count']:>5}  {change['rule']}{key}"))
        for example in change["examples"]:
            place = "" if example["line"] is None else f" line {example['line']}:"
            print(plain(f"    {example['attempt_id']} {example['kind']}:{place} {example['message'][:160]}"))


def _read_profile(name: str) -> tuple[str, str | None]:
    """Return the name of a profile and, if a file is given, its text. Raises: RequestError."""
    if not name.endswith(".toml"):
        return name, None
    try:
        return Path(name).stem, Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise RequestError("file.unreadable", f"{name}: {problem}") from problem


def review_query(since: str | None, batch: str | None, label: list[str] | None, kind: str | None) -> Document:
    """Return the request's form of a query for attempts.

    The value of `since` can be an age such as 7d.
    """
    age = _AGE.fullmatch(since or "")
    if age is not None:
        since = (datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})).isoformat()
    return {"since": since, "batch": batch, "labels": label or [], "kind": kind}
