"""Implements `assay token`, `assay node` and `assay nodes` for the operators of a gateway."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from assayd.errors import RequestError
from assayd_client import Document, NotFound, PlainClient
from assayd_client.cli.options import FAILED, VALIDATED, Json, open_client
from assayd_client.cli.terminal import print_result

NO_ROUTE_MESSAGE = "there is nothing here"
"""The message with which a daemon responds to an unknown path."""


@contextmanager
def open_gateway_client(context: typer.Context) -> Iterator[PlainClient]:
    """Return a client of a gateway. Raises: RequestError ``usage``, if the daemon isn't a gateway."""
    with open_client(context) as client:
        try:
            yield client
        except NotFound as error:
            if error.message != NO_ROUTE_MESSAGE:
                raise
            message = f"{client.address} is a single-host daemon; only a gateway manages tokens and nodes"
            raise RequestError("usage", f"{message}; pass its address with --socket or --server") from error


token_app = typer.Typer(help="Create, list and revoke gateway tokens (operators only).", no_args_is_help=True)

TOKEN_COLUMNS = ("id", "name", "tenant", "scopes", "node", "created", "last used", "revoked")


@token_app.command("create")
def create(
    context: typer.Context,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Token name shown in lists and logs.")],
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", metavar="T", help="Owner of the token; created if it doesn't exist."),
    ] = None,
    scopes: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="S",
            help="Grant this scope: metrics, read, submit (default; includes read) or operate.",
        ),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            "--node", metavar="NAME", help="Create a token that only the node with this name can use."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the token to a new file with mode 0600."),
    ] = None,
) -> None:
    """Create a token and print it once."""
    scopes = scopes or (["node"] if node else ["submit"])
    tenant = tenant or ("nodes" if node else "default")
    url_file = Path(f"{out}.broker-url") if node and out else None
    with (
        _open_token_file(out) as file,
        _open_token_file(url_file) as second,
        open_gateway_client(context) as client,
    ):
        made = client.create_token(name, tenant=tenant, scopes=scopes, node=node)
        print(made["token"], file=file)
        if made.get("broker_url"):
            print(made["broker_url"], file=second)
        elif url_file is not None:
            url_file.unlink()
    whose = f"node {node}" if node else f"tenant {made['tenant']} (uid {made['tenant_id']})"
    where = "it won't be shown again" if out is None else f"in {out}"
    if made.get("broker_url"):
        where += f"; its broker account: {'the second line' if url_file is None else url_file}"
    print(f"Token {made['id']} {name!r} of {whose}: {', '.join(made['scopes'])}; {where}", file=sys.stderr)


@token_app.command("list")
def list_tokens(context: typer.Context, as_json: Json = False) -> None:
    """List all tokens without their secrets."""
    with open_gateway_client(context) as client:
        found = client.tokens()["tokens"]
    print_result(found, TOKEN_COLUMNS, map(_build_token_row, found), as_json=as_json)


@token_app.command("revoke")
def revoke(
    context: typer.Context,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Token: id, unique id prefix, or name.")],
) -> None:
    """Revoke a token; every gateway refuses it within seconds."""
    with open_gateway_client(context) as client:
        gone = client.revoke_token(_find_token_id(client.tokens()["tokens"], token))
    print(f"Revoked: {gone['id']} {gone['name']!r} of tenant {gone['tenant']}")


def _find_token_id(tokens: list[Document], wanted: str) -> str:
    """Return the id of the single token that matches. Raises: RequestError ``token.unknown``."""
    if exact := [token for token in tokens if token["id"] == wanted]:
        return str(exact[0]["id"])
    live = [token for token in tokens if token["revoked_at"] is None]
    meant = [token["id"] for token in live if token["name"] == wanted or token["id"].startswith(wanted)]
    if len(meant) != 1:
        message = f"{len(meant)} active tokens match {wanted!r}"
        raise RequestError("token.unknown", f"{message}; find the id with `assay token list`")
    return str(meant[0])


def _build_token_row(token: Document) -> list[str]:
    times = (token["created_at"], token["last_used_at"], token["revoked_at"])
    shown = ["" if at is None else at[:16] + "Z" for at in times]
    return [
        token["id"],
        token["name"],
        token["tenant"],
        ", ".join(token["scopes"]),
        token["node"] or "",
        *shown,
    ]


@contextmanager
def _open_token_file(path: Path | None) -> Iterator[TextIO]:
    """Create the file for a token before the token exists, or use standard output without a path.

    Only the owner can read the file; it is deleted on failure. Raises: RequestError ``file.unwritable``, if
    the file exists or can't be created.
    """
    if path is None:
        yield sys.stdout
        return
    try:
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii")
    except OSError as error:
        raise RequestError("file.unwritable", f"--out {path}: {error.strerror}") from error
    try:
        with file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


node_app = typer.Typer(
    help="Drain, resume, forget or distrust a cluster node (operators only).", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Node name, as in `assay nodes`.")]
NODE_COLUMNS = ("", "node", "in hand", "version", "engine", "beaten", "why")


def list_nodes(context: typer.Context, as_json: Json = False) -> None:
    """List the nodes of a cluster (operators only)."""
    with open_gateway_client(context) as client:
        found = client.nodes()["nodes"]
    print_result(found, NODE_COLUMNS, map(_build_node_row, found), as_json=as_json)


@node_app.command("drain")
def drain(context: typer.Context, name: Name) -> None:
    """Drain a node: it accepts no new attempts, and finishes its current ones."""
    with open_gateway_client(context) as client:
        node = client.drain_node(name)
    print(f"{node['name']}: accepts no new attempts; {node['in_hand']} in progress")


@node_app.command("resume")
def resume(context: typer.Context, name: Name) -> None:
    """Let a drained node accept attempts again."""
    with open_gateway_client(context) as client:
        node = client.resume_node(name)
    print(f"{node['name']}: {node['state'].replace('_', ' ')}{': ' if node['why'] else ''}{node['why']}")


@node_app.command("forget")
def forget(context: typer.Context, name: Name) -> None:
    """Forget a node that has stopped, and revoke its tokens."""
    with open_gateway_client(context) as client:
        gone = client.forget_node(name)
    print(f"{gone['name']}: forgotten; revoked tokens: {len(gone['revoked'])}")


@node_app.command("distrust")
def distrust(
    context: typer.Context,
    name: Name,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Mark only verdicts of runs since this time or age, such as 24h. Default: all verdicts.",
        ),
    ] = None,
    run: Annotated[
        bool, typer.Option("--run/--no-run", help="Run the marked attempts again on other nodes.")
    ] = True,
) -> None:
    """Drain a node, mark its verdicts, and rerun them elsewhere; exits with status 1 if a result differs."""
    from assayd_client.cli.attempts import iter_replay_diff_lines
    from assayd_client.cli.options import to_api_time
    from assayd_client.cli.terminal import get_stdout

    with open_gateway_client(context) as client:
        marked = client.distrust_node(name, since=to_api_time(since))
        state = "drained" if marked["node"] is not None else "forgotten before"
        print(
            f"{name}: {state}; marked verdicts: {marked['marked']}; runs taken back: {marked['taken_back']}"
        )
        if not run:
            print(f"List the marked attempts: assay list --node {name} --distrusted")
            return
        differ = 0
        for again in _replay_marked_attempts(client, name):
            get_stdout().lines(iter_replay_diff_lines(again))
            differ += again["replay_diff"] is None or not again["replay_diff"]["same"]
    raise typer.Exit(FAILED if differ else VALIDATED)


def _replay_marked_attempts(client: PlainClient, node: str) -> Iterator[Document]:
    """Replay each marked attempt of a node once, a few at a time, and yield the replays, newest first."""
    from concurrent.futures import ThreadPoolExecutor

    from assayd_client.cli.attempts import run_again

    def again(attempt: Document) -> Document:
        return run_again(client, attempt["id"], key=f"distrust-{attempt['distrusted_at']}-{attempt['id']}")

    with ThreadPoolExecutor(8) as pool:
        cursor: str | None = ""
        while cursor is not None:
            page = client.attempts(node=node, distrusted=True, cursor=cursor or None, limit=100)
            yield from pool.map(again, page["attempts"])
            cursor = page["next_cursor"]


def _build_node_row(node: Document) -> list[str]:
    return [
        node["state"].replace("_", " "),
        node["name"],
        f"{node['in_hand']} of {node['capacity']}",
        node["version"],
        node["engine"],
        f"{node['silent_s']:.0f} s ago",
        node["why"],
    ]
