"""Implements `assay verify` and `assay keys`, which verify signed verdicts without a daemon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assayd.errors import RequestError
from assayd_client.cli import options
from assayd_client.cli.options import parse_age

if TYPE_CHECKING:
    from assayd_attestation.signatures import PublicKey
    from assayd_attestation.verifying import VerifiedAttestation
    from assayd_client.module_tree import InstalledModule

keys_app = typer.Typer(help="Create and show the keys of signed verdicts.", no_args_is_help=True)

MISSING_MESSAGE = "signed verdicts need the package {missing}; install it with: pip install cryptography"
KeyFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Private key file; the public key is in FILE.pub.")
]


def verify(  # noqa: PLR0913, PLR0917  (a parameter per option)
    path: Annotated[
        Path,
        typer.Argument(
            metavar="BUNDLE|FILE",
            help="Bundle folder, code file, or (with --batch) batch attestation.",
        ),
    ],
    key: Annotated[
        Path, typer.Option(metavar="PUB", help="File with the daemon's public keys in PEM format.")
    ],
    attestation: Annotated[
        Path | None,
        typer.Option(metavar="F", help="Attestation for FILE. Default: FILE.attestation.json."),
    ] = None,
    batch: Annotated[
        bool, typer.Option("--batch", help="Check a batch attestation; every item must be validated.")
    ] = False,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Require a verdict for this kind.")] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="NAME|DIGEST", help="Require a verdict under this policy.")
    ] = None,
    max_age: Annotated[
        str | None, typer.Option(metavar="AGE", help="Require a verdict no older than this: 30m, 24h, 7d.")
    ] = None,
    allow_reported: Annotated[
        bool,
        typer.Option("--allow-reported", help="Accept a profile that only reports rule violations."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the signed statement as JSON.")] = False,
) -> None:
    """Check a signed verdict offline.

    The exit code is 0 if the code is validated, 1 if the attestation doesn't match, and 6 if it is missing.
    """
    age = _parse_max_age(max_age)
    if not path.exists():
        raise RequestError("usage", f"{path} doesn't exist")
    with _report_attestation_errors(), _exit_if_not_verified():
        from assayd_attestation import verifying

        wanted = verifying.Wanted(kind=kind, policy=policy, max_age=age, reported=allow_reported)
        if batch:
            verified = verifying.verify_batch(path, _load_key_file(key), wanted=wanted)
        else:
            verified = verifying.verify(path, _load_key_file(key), attestation=attestation, wanted=wanted)
    _print_verified(verified, as_json=as_json)


@keys_app.command("new")
def create_key_pair(file: KeyFile) -> None:
    """Create a private key in FILE and its public key in FILE.pub."""
    with _report_attestation_errors():
        from assayd_attestation import signatures

        public = signatures.create_key_pair(file)
        print(f"Private key: {file} (keep it secret; set it as attestation.key)")
        print(
            f"Public key:  {signatures.get_public_key_path(file)} (pass it to everyone who verifies bundles)"
        )
    print(f"Key id:      {public.id}")


@keys_app.command("show")
def show_keys(file: KeyFile) -> None:
    """Print the ids of the public keys in FILE, newest first."""
    with _report_attestation_errors():
        from assayd_attestation import signatures

        found = signatures.read_public_keys(
            file if file.suffix == ".pub" else signatures.get_public_key_path(file)
        )
    for public in found:
        print(public.id)


@keys_app.command("rotate")
def rotate_key_pair(file: KeyFile) -> None:
    """Replace the private key; FILE.pub keeps the older public keys, so that old bundles stay verifiable."""
    with _report_attestation_errors():
        from assayd_attestation import signatures

        public = signatures.rotate_key_pair(file)
        print(f"New key:    {public.id}")
        print(f"Restart the daemon, and distribute {signatures.get_public_key_path(file)} again.")


@contextmanager
def _report_attestation_errors() -> Iterator[None]:
    """Raise RequestError ``usage`` for a missing attestation package or an unusable key file."""
    try:
        from assayd_attestation import signatures
    except ModuleNotFoundError as missing:
        raise RequestError("usage", MISSING_MESSAGE.format(missing=missing.name)) from missing
    try:
        yield
    except signatures.KeyFileError as error:
        raise RequestError("usage", str(error)) from error


@contextmanager
def _exit_if_not_verified() -> Iterator[None]:
    """End the program with a message if an attestation is missing, doesn't match or can't be read."""
    from assayd_attestation import verifying

    try:
        yield
    except verifying.UnsignedError as error:
        _exit_with_message(f"Unsigned: {error}", options.UNSIGNED)
    except verifying.MismatchError as error:
        _exit_with_message(f"Doesn't match: {error}", options.FAILED)
    except OSError as error:
        raise RequestError("usage", f"can't read {error.filename}: {error.strerror}") from error


def add_attestation_problems(found: Sequence[InstalledModule], key: Path) -> list[InstalledModule]:
    """Return the modules after adding the problems of their attestations.

    Raises: RequestError ``usage``, if the key file is unusable.
    """
    with _report_attestation_errors():
        from assayd_attestation.verifying import MismatchError, verify_submission

        public = _load_key_file(key)

    def problem(each: InstalledModule) -> str | None:
        if not each.input_digest:
            return None
        if each.attestation is None:
            return "has no attestation"
        try:
            verify_submission(each.attestation, each.input_digest, public)
        except MismatchError as mismatch:
            return f"attestation: {mismatch}"
        return None

    return [replace(each, problems=(*each.problems, *filter(None, [problem(each)]))) for each in found]


def _load_key_file(key: Path) -> tuple[PublicKey, ...]:
    from assayd_attestation import signatures

    return signatures.read_public_keys(key)


def _parse_max_age(text: str | None) -> timedelta | None:
    age = parse_age(text) if text is not None else None
    if text is not None and age is None:
        raise RequestError(
            "usage", f"--max-age {text!r}: write a number followed by s, m, h or d, such as 24h"
        )
    return age


def _exit_with_message(message: str, code: int) -> None:
    from assayd_client.cli.terminal import plain

    print(plain(message))
    raise typer.Exit(code)


def _print_verified(verified: VerifiedAttestation, *, as_json: bool) -> None:
    from assayd_client.cli.terminal import plain, print_json

    if as_json:
        print_json(verified.statement)
        return
    predicate = verified.predicate
    daemon, policy, verdicts = (predicate.get(name) or {} for name in ("daemon", "policy", "verdicts"))
    items = f", {verdicts['validated']} items" if verdicts else ""
    print(plain(f"✓ {verified.subject}: validated{items}"))
    if policy:
        print(f"Kind:      {plain(predicate['attempt']['kind'])}")
        print(plain(f"Policy:    {policy['name']} ({policy['digest']['sha256']})"))
    print(plain(f"Validated: {predicate.get('validatedAt')}"))
    if (node := (predicate.get("attempt") or {}).get("node")) is not None:
        print(plain(f"Node:      {node}"))
    print(plain(f"Daemon:    {daemon.get('name') or daemon.get('id')}, assayd {daemon.get('version')}"))
    print(f"Key:       {verified.key_id}")
