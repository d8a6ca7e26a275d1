"""Implements `assay module`, which installs validated modules into a folder tree and manages them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from assayd_client import module_tree
from assayd_client.cli.options import Json, open_client
from assayd_client.cli.parts import import_part

module_app = typer.Typer(help="Install validated modules into a folder tree.", no_args_is_help=True)

Tree = Annotated[
    Path,
    typer.Argument(metavar="TREE", help="Folder tree in which each CATEGORY/PLATFORM folder is a module."),
]
HEADS = ("module", "version", "installed", "policy", "kept", "state")


@module_app.command("install")
def install(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the module to install.")],
    tree: Annotated[Path, typer.Option("--into", metavar="TREE", help="Folder tree to install it into.")],
    policy: Annotated[str, typer.Option(metavar="NAME", help="Profile to validate the module under.")],
    new_category: Annotated[
        bool, typer.Option("--new-category", help="Create the category's folder if it doesn't exist.")
    ] = False,
    allow_downgrade: Annotated[
        bool, typer.Option("--allow-downgrade", help="Replace a newer version with an older one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Validate a module, and install it into a tree if it passes; the replaced version is kept."""
    from assayd_client.cli.options import EXIT_CODE_BY_VERDICT
    from assayd_client.cli.submitting import submit_and_wait
    from assayd_client.cli.terminal import get_stderr, print_json
    from assayd_client.cli.validate import print_attempt

    candidate = module_tree.read_candidate(folder)
    allowed = module_tree.InstallPermissions(new_category=new_category, downgrade=allow_downgrade)
    module_tree.check(tree, candidate, allowed)
    with open_client(context) as client:
        submission = {"kind": "module", "policy": policy, "payload": candidate.payload}
        attempt = submit_and_wait(client, submission, show_progress=get_stderr().is_terminal and not as_json)
        if attempt["verdict"] != "validated":
            print_attempt(attempt, as_json=as_json)
            raise typer.Exit(EXIT_CODE_BY_VERDICT[attempt["verdict"]])
        attested = any(one["name"] == "attestation.json" for one in attempt["artifacts"])
        proof = client.artifact(attempt["id"], "attestation.json") if attested else None
    record = module_tree.build_verdict_record(attempt, candidate, datetime.now(UTC))
    replaced = module_tree.install(tree, candidate, record, proof, allowed)
    if as_json:
        print_json({**record, "module": candidate.name, "version": candidate.version, "replaced": replaced})
        return
    was = f"; replaced {replaced}, which is kept" if replaced else ""
    print(f"{candidate.name} {candidate.version}: installed{was}")


@module_app.command("list")
def list_modules(tree: Tree, as_json: Json = False) -> None:
    """List the modules in a tree; needs no daemon."""
    _print_modules(module_tree.list_installed_modules(tree), as_json=as_json)


@module_app.command("rollback")
def rollback(
    tree: Tree,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Module: CATEGORY/PLATFORM.")],
) -> None:
    """Swap a module with its kept version; a second rollback undoes the first. Needs no daemon."""
    before, after = module_tree.roll_back(tree, name)
    print(f"{name}: {before} replaced by {after}; {before} is kept")


@module_app.command("verify")
def verify(
    tree: Tree,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="PUB", help="Also check each attestation against the public keys in this PEM file."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare a tree's files with the validated digests; exits with 1 if any differs. Needs no daemon."""
    from assayd_client.cli.options import FAILED

    found = module_tree.list_installed_modules(tree, attestations=key is not None)
    if key is not None:
        check = import_part("assayd_attestation.commands:add_attestation_problems", "module verify --key")
        found = check(found, key)
    _print_modules(found, as_json=as_json)
    if any(each.problems for each in found):
        raise typer.Exit(FAILED)


def _print_modules(found: Sequence[module_tree.InstalledModule], *, as_json: bool) -> None:
    from assayd_client.cli.terminal import get_stdout, plain, print_json, print_table

    if as_json:
        print_json({"modules": [each.document() for each in found]})
        return
    rows = [
        [
            plain(each.name),
            plain(each.version),
            plain(str(each.record.get("installed_at", ""))[:20]),
            plain(str(each.record.get("policy", ""))[:64]),
            plain(each.kept or ""),
            plain("; ".join(each.problems)) or "ok",
        ]
        for each in found
    ]
    print_table(get_stdout(), HEADS, rows)
