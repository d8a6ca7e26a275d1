"""Implements `assay library`, which manages approved submissions by name and version."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assayd.errors import RequestError
from assayd_client import Document, PlainClient
from assayd_client.cli.ids import resolve_attempt_id as find_attempt
from assayd_client.cli.options import Json, open_client
from assayd_client.cli.terminal import plain, print_json, print_result, shorten
from assayd_client.cli.texts import get_submission_texts, write_texts

library_app = typer.Typer(help="Approve validated attempts, and fetch them by name.", no_args_is_help=True)

Entry = Annotated[
    str, typer.Argument(metavar="NAME[@VERSION]", help="Entry name. Default version: the newest.")
]
Uid = Annotated[int | None, typer.Option(min=0, help="Use this user's library (operators only).")]
HEADS = ("name", "version", "kind", "approved", "by", "asked for")
INTENT_CHARS = 60


def find_entry(client: PlainClient, reference: str) -> Document:
    """Return the entry that ``NAME`` or ``NAME@VERSION`` refers to, with its submission.

    Raises: RequestError ``library.reference``, for another form; NotFound, if no such entry exists.
    """
    name, version = split_reference(reference)
    newest = client.library_history(name)["entries"][0]["version"] if version is None else version
    return client.library_entry(name, newest)


def split_reference(reference: str) -> tuple[str, int | None]:
    """Return the name and the version in ``NAME`` or ``NAME@VERSION``; the version can be None.

    Raises: RequestError ``library.reference``, if the reference has another form.
    """
    name, at, version = reference.partition("@")
    if at and not (version.isascii() and version.isdigit() and int(version) > 0):
        raise RequestError("library.reference", f"{reference!r} is not NAME or NAME@VERSION, like months@2")
    return name, int(version) if at else None


@library_app.command("approve")
def approve(
    context: typer.Context,
    attempt_id: Annotated[
        str, typer.Argument(metavar="ATTEMPT", help="Attempt: id, unique id prefix, or `last`.")
    ],
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Entry name of lowercase letters, digits, _ and -.")
    ],
    as_json: Json = False,
) -> None:
    """Approve a validated attempt under a name, as the next version of that name."""
    with open_client(context) as client:
        entry = client.approve(find_attempt(client, attempt_id), name)
    if as_json:
        print_json(entry)
    else:
        print(f"Approved: {entry['name']}@{entry['version']}")


@library_app.command("list")
def list_entries(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Show at most this many entries.")] = 100,
    uid: Uid = None,
    as_json: Json = False,
) -> None:
    """List your library: the newest version of each name."""
    with open_client(context) as client:
        _print_entries(client.library(limit=limit, uid=uid), as_json=as_json)


@library_app.command("history")
def history(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the entry.")],
    uid: Uid = None,
    as_json: Json = False,
) -> None:
    """List all versions of a name, newest first."""
    with open_client(context) as client:
        _print_entries(client.library_history(name, uid=uid), as_json=as_json)


@library_app.command("show")
def show(context: typer.Context, entry: Entry, as_json: Json = False) -> None:
    """Show an entry: its request, approver, attempts and contents."""
    with open_client(context) as client:
        found = find_entry(client, entry)
    if as_json:
        print_json(found)
        return
    print(f"{found['name']}@{found['version']}  {plain(found['kind'])}  {found['digest']}")
    if found["intent"]:
        print(f"Request: {plain(found['intent'])}")
    print(f"Approved: {found['approved_at']} by {found['approved_by']}")
    print(f"Attempts: {' > '.join(found['chain'])}")
    for name, text in get_submission_texts(found["submission"]).items():
        print(f"\n==> {plain(name)} <==" if name else "")
        print(plain(text.rstrip("\n")))


@library_app.command("export")
def export(
    context: typer.Context,
    entry: Entry,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Write to this file, or to this folder if there are several files."
        ),
    ],
) -> None:
    """Write an entry's contents to a file or a folder."""
    with open_client(context) as client:
        found = find_entry(client, entry)
    write_texts(get_submission_texts(found["submission"]), out)
    print(f"{found['name']}@{found['version']} is in {out}")


@library_app.command("remove")
def remove(
    context: typer.Context,
    entry: Annotated[
        str, typer.Argument(metavar="NAME[@VERSION]", help="Entry name. Without a version: all versions.")
    ],
    uid: Uid = None,
    as_json: Json = False,
) -> None:
    """Remove one version of a name, or the name and all its versions.

    The attempts are kept until retention removes them.
    """
    name, version = split_reference(entry)
    with open_client(context) as client:
        removed = client.remove_from_library(name, version, uid=uid)
    if as_json:
        print_json(removed)
        return
    for one in removed["entries"]:
        print(f"Removed: {one['name']}@{one['version']}")


@library_app.command("diff")
def diff(
    context: typer.Context,
    before: Entry,
    after: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME[@VERSION]]", help="Entry to compare with. Default: the previous version."
        ),
    ] = None,
) -> None:
    """Show the differences between two entries or versions, by default from an entry's previous version."""
    from assayd.documents import build_submission_diff

    with open_client(context) as client:
        new = find_entry(client, before if after is None else after)
        if after is None and new["version"] == 1:
            raise RequestError(
                "library.no_earlier", f"{new['name']}@1 is the first version, so there is nothing to compare"
            )
        old = find_entry(client, f"{new['name']}@{new['version'] - 1}" if after is None else before)
    print(plain(build_submission_diff(old["submission"]["payload"], new["submission"]["payload"])), end="")


def _print_entries(page: Document, *, as_json: bool) -> None:
    rows = [
        (
            one["name"],
            str(one["version"]),
            one["kind"],
            one["approved_at"][:19] + "Z",
            str(one["approved_by"]),
            shorten(" ".join((one["intent"] or "").split()), INTENT_CHARS),
        )
        for one in page["entries"]
    ]
    print_result(page, HEADS, rows, as_json=as_json)
