"""Implements `assay repair …`, which repairs a failed attempt, shows the fixes, and cancels a repair."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from assayd.errors import RequestError
from assayd_client import Document, PlainClient
from assayd_client.cli.ids import iter_pages
from assayd_client.cli.ids import resolve_attempt_id as find_attempt
from assayd_client.cli.ids import resolve_repair_id as find_repair
from assayd_client.cli.options import CANCELLED, FAILED, VALIDATED, Json, open_client
from assayd_client.cli.submitting import cancel_on_interrupt
from assayd_client.cli.terminal import build_line, get_stdout, print_json, print_result, shorten
from assayd_client.cli.texts import edited as edit_texts
from assayd_client.cli.texts import fetch_stored_submission, get_submission_texts

LINE_CHARS = 200
NUMBERED_PATTERN = re.compile(r"\d+\. ")


def iter_failure_lines(context: str) -> Iterator[str]:
    """Yield the findings in a retry context, one per line, or the first line if there are none."""
    found = [text for text in context.splitlines() if NUMBERED_PATTERN.match(text)] or context.splitlines()[
        :1
    ]
    if len(found) == 1:
        yield f"failed: {shorten(NUMBERED_PATTERN.sub('', found[0], count=1), LINE_CHARS)}"
        return
    yield "failed:"
    yield from (f"  {shorten(text, LINE_CHARS)}" for text in found)


def iter_offer_lines(repair_id: str, fallback: Document) -> Iterator[str]:
    """Yield the lines that describe an offer: its reason, rules, results and accepting command."""
    applied = fallback["applied"]
    yield ""
    yield f"Rules instead of code ({fallback['trigger']}): {fallback['reason']}"
    yield ""
    yield from (f"   {line}" for line in fallback["rules"].splitlines())
    yield ""
    yield f"They extract every field for {applied['complete']} of {applied['paths']} sample paths:"
    for shown in applied["shown"]:
        fields = ", ".join(f"{name}={value!r}" for name, value in shown["fields"].items())
        missing = "; nothing for " + ", ".join(map(ascii, shown["missing"])) if shown["missing"] else ""
        yield f"   {shown['path']!r}: {fields}{missing}"
    if fallback["accepted_at"] is None:
        yield f"Accept them: assay repair accept {repair_id}"
    else:
        yield f"Accepted at {fallback['accepted_at']}"


class _DefaultStartGroup(TyperGroup):
    """A command group that interprets `assay repair ID` as `assay repair start ID`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the named command. A word that isn't a command is the id of an attempt to repair."""
        known = not args or args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["start", *args])


repair_app = typer.Typer(
    cls=_DefaultStartGroup,
    help="Repair failed attempts, and show the attempted fixes.",
    no_args_is_help=True,
)

Id = Annotated[str, typer.Argument(metavar="ID", help="Repair: id, unique id prefix, or `last`.")]
REPAIR_EXIT_CODES = {"repaired": VALIDATED, "cancelled": CANCELLED}


@repair_app.command("start")
def start(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    attempt_id: Annotated[
        str,
        typer.Argument(metavar="ATTEMPT", help="Failed attempt: id, unique id prefix, or `last`."),
    ],
    provider: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Use this provider. Default: `rules`, or the provider that accepts hints."
        ),
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option(min=1, max=10, help="Try at most this many fixes.")
    ] = None,
    hint: Annotated[str | None, typer.Option(metavar="TEXT", help="Pass this hint to the provider.")] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Correct the code in $EDITOR first.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start again from the first submission.")] = False,
    as_json: Json = False,
) -> None:
    """Repair a failed attempt, wait, and show the attempted fixes."""
    with open_client(context) as client:
        attempt_id = find_attempt(client, attempt_id)
        code = edit_submission(client, attempt_id) if edit else None
        repair = client.repair(
            attempt_id,
            provider=provider,
            max_attempts=max_attempts,
            hint=hint,
            code=code,
            fresh=fresh or None,
        )
        repair = wait_for_repair(client, repair)
        _print_repair(repair, as_json=as_json)
    raise typer.Exit(REPAIR_EXIT_CODES.get(repair["outcome"], FAILED))


@repair_app.command("show")
def show(context: typer.Context, repair_id: Id, as_json: Json = False) -> None:
    """Show a repair: each failure, the reason given, the change and the verdict."""
    with open_client(context) as client:
        _print_repair(client.repair_state(find_repair(client, repair_id)), as_json=as_json)


@repair_app.command("step")
def show_step(
    context: typer.Context,
    repair_id: Id,
    number: Annotated[int, typer.Argument(metavar="N", min=1, help="Fix number, starting at 1.")],
    as_json: Json = False,
) -> None:
    """Show one fix's prompt and the answer to it."""
    with open_client(context) as client:
        step = client.repair_step(find_repair(client, repair_id), number)
    if as_json:
        print_json(step)
    else:
        print_step(step)


def print_step(step: Document) -> None:
    """Print the system and user messages and the answer of one provider step."""
    for title, text in (("system", "system"), ("user", "user"), (f"answer of {step['provider']}", "answer")):
        print(f"======== {to_printable(title)} ========\n{to_printable(step[text])}")


@repair_app.command("list")
def list_repairs(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Show at most this many repairs.")] = 20,
    as_json: Json = False,
) -> None:
    """List repairs, newest first."""
    with open_client(context) as client:
        page = client.repairs(limit=limit)
    heads = ("id", "kind", "provider", "outcome", "fixes", "started")
    print_result(page, heads, map(_build_repair_row, page["repairs"]), as_json=as_json)


@repair_app.command("cancel")
def cancel(context: typer.Context, repair_id: Id) -> None:
    """Cancel a repair and its running attempt."""
    with open_client(context) as client:
        found = find_repair(client, repair_id)
        client.cancel_repair(found)
    print(f"Cancelling {found}")


@repair_app.command("accept")
def accept(context: typer.Context, repair_id: Id, as_json: Json = False) -> None:
    """Accept, validate and print the rules that a repair offers in place of code."""
    with open_client(context) as client:
        repair = client.accept_fallback(find_repair(client, repair_id))
    if as_json:
        print_json(repair)
        return
    print(repair["fallback"]["rules"], end="")
    if (attempt_id := repair["fallback"].get("attempt_id")) is not None:
        print(f"assay: attempt {attempt_id} validates them: assay show {attempt_id}", file=sys.stderr)


@repair_app.command("stats")
def stats(context: typer.Context, as_json: Json = False) -> None:
    """Print repair statistics by kind and provider: counts, times, and the share fixed on the first try."""
    with open_client(context) as client:
        found = list(iter_pages(client.repairs, "repairs"))
    table = compute_repair_statistics(found)
    rows = [[_format_cell(row[name]) for name in STATISTICS_COLUMNS] for row in table]
    print_result({"repairs": table}, STATISTICS_COLUMNS, rows, as_json=as_json)


STATISTICS_COLUMNS = (
    "kind",
    "provider",
    "ended",
    "repaired",
    "success_rate",
    "first_attempt",
    "first_attempt_rate",
    "fixes",
    "duplicates",
    "stuck",
    "fix_s",
    "repaired_s",
)
"""The columns of the statistics.

`fix_s` is the mean time from a failure to its fix, and `repaired_s` from the first failure to the validated
attempt.
"""


def compute_repair_statistics(repairs: Sequence[Document]) -> list[Document]:
    """Return counts of finished repairs by kind and provider, and in total. Source: docs/repair.md."""
    groups: dict[tuple[str, str], list[Document]] = {}
    for repair in repairs:
        if repair["outcome"] is not None:
            groups.setdefault((repair["kind"], repair["provider"]), []).append(repair)
    rows = [_count_group(*key, some) for key, some in sorted(groups.items())]
    every = [repair for some in groups.values() for repair in some]
    return [*rows, _count_group("all", "all", every)] if len(rows) > 1 else rows


def _count_group(kind: str, provider: str, repairs: Sequence[Document]) -> Document:
    good = [repair for repair in repairs if repair["outcome"] == "repaired"]
    fixes = [fix for repair in repairs for fix in repair["attempts"]]
    first = sum(len(repair["attempts"]) == 1 for repair in good)
    return {
        "kind": kind,
        "provider": provider,
        "ended": len(repairs),
        "repaired": len(good),
        "success_rate": round(len(good) / len(repairs), 3),
        "first_attempt": first,
        "first_attempt_rate": round(first / len(repairs), 3),
        "fixes": len(fixes),
        "duplicates": sum(fix["duplicate"] for fix in fixes),
        "stuck": sum(repair["outcome"] == "stuck" for repair in repairs),
        "fix_s": _compute_mean_or_none([fix["duration_ms"] / 1000 for fix in fixes]),
        "repaired_s": _compute_mean_or_none([_compute_duration_s(repair) for repair in good]),
    }


def _compute_mean_or_none(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None


def _compute_duration_s(repair: Document) -> float:
    began, ended = (datetime.fromisoformat(repair[name]) for name in ("started_at", "finished_at"))
    return (ended - began).total_seconds()


def _format_cell(value: object) -> str:
    return "–" if value is None else str(value)


def show_chain(client: PlainClient, attempt: Document) -> None:
    """Print the repairs that an attempt began or belongs to, in the order of attempts."""
    if attempt["verdict"] != "failed" and attempt["parent_id"] is None:
        return  # an attempt that didn't fail has no repair
    for repair in client.repairs_of(attempt["id"])["repairs"]:
        print()
        _print_repair(client.repair_state(repair["id"]), as_json=False)


def follow_repairs(
    client: PlainClient, attempt: Document, *, show: bool, file: str | None = None
) -> Document:
    """Wait for the repair that an attempt requested, and return the repair's newest attempt.

    Without a new attempt, return the attempt itself. `file` is the submitted file.
    """
    for repair in client.repairs_of(attempt["id"])["repairs"]:
        ended = wait_for_repair(client, repair)
        if show:
            _print_repair(ended, as_json=False, file=file)
        ran = [fix["attempt_id"] for fix in ended["attempts"] if fix["attempt_id"]]
        if ran:
            attempt = client.attempt(ran[-1])
    return attempt


def wait_for_repair(client: PlainClient, repair: Document) -> Document:
    """Wait for the end of a repair, and return it. A keyboard interrupt cancels the repair."""
    with cancel_on_interrupt(client.cancel_repair, repair["id"], "repair "):
        for _ in client.repair_events(repair["id"]):
            pass
    return client.repair_state(repair["id"])


def edit_submission(client: PlainClient, attempt_id: str) -> str:
    """Open the submitted code in the user's editor and return the edited code.

    Raises: RequestError ``repair.no_code``, if the submission isn't a single text, or ``repair.unchanged``.
    """
    submission = fetch_stored_submission(client, client.attempt(attempt_id))
    code = get_submission_texts(submission).get("") if submission is not None else None
    if code is None:
        raise RequestError(
            "repair.no_code",
            "submissions of this kind consist of several files or steps; "
            "--edit works only with a single file",
        )
    changed = edit_texts({"": code})[""]
    if changed == code:
        raise RequestError("repair.unchanged", "nothing was changed")
    return changed


def _build_repair_row(repair: Document) -> tuple[str, ...]:
    outcome = repair["outcome"] or repair["state"]
    fixes = str(len(repair["attempts"]))
    return (repair["id"], repair["kind"], repair["provider"], outcome, fixes, repair["started_at"])


def _print_repair(repair: Document, *, as_json: bool, file: str | None = None) -> None:
    if as_json:
        print_json(repair)
        return
    get_stdout().lines(build_line(said, hang=None) for said in iter_repair_lines(repair, file))


def _replace_field_by_file(line: str, file: str) -> str:
    """Return a line of a diff in which the file's name replaces the payload field of a single text."""
    return f"{line[:4]}{file}" if line in {"--- payload.code", "+++ payload.code"} else line


def iter_repair_lines(repair: Document, file: str | None = None) -> Iterator[str]:
    """Yield the lines that describe a repair.

    Changes to a single text are shown under the name of its file.
    """
    yield f"{repair['id']}  {repair['kind']} · {repair['provider']} · of {repair['attempt_id']}"
    for fix in repair["attempts"]:
        unused = "can't be used" if fix["cause"] == "fix.unusable" else "under way"
        verdict = "duplicate, not run" if fix["duplicate"] else (fix["verdict"] or unused)
        yield ""
        yield f"{fix['number']}. {fix['passage']}: {verdict}" + (
            f"  {fix['attempt_id']}" if fix["attempt_id"] else ""
        )
        yield from (f"   {said}" for said in iter_failure_lines(fix["original_error"]))
        yield f"   reason: {to_printable(fix['fix_reason'])}"
        diff = (fix.get("diff") or "").splitlines()
        yield from (
            f"   {to_printable(_replace_field_by_file(line, file or fix['passage']))}" for line in diff
        )
    yield ""
    if repair.get("input_tokens") is not None:
        yield f"Tokens: {repair['input_tokens']} in, {repair['output_tokens']} out"
    detail = f" ({to_printable(repair['detail'])})" if repair["detail"] else ""
    yield f"Repair: {repair['outcome'] or repair['state']}{detail}"
    if repair["fallback"] is not None:
        yield from iter_offer_lines(repair["id"], repair["fallback"])


def to_printable(text: str) -> str:
    """Replace the characters that a terminal would interpret as commands."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
