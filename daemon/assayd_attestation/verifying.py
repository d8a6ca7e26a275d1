"""Checks a signed verdict offline: against a bundle, a batch's statement, or a file with its attestation.

Everything that is read is hostile. A check says what does not match; nothing is extracted or run.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from assayd.ports.attesting import ATTESTATION
from assayd_attestation.envelope import MOST_BYTES, EnvelopeError, Opened, open_envelope
from assayd_attestation.keys import PublicKey
from assayd_attestation.types import BATCH_TYPE, VERDICT_TYPE

UNSIGNED_FILES = frozenset({ATTESTATION, "manifest.json"})
"""Files of a bundle that the attestation doesn't name: itself, and the list that holds its digest."""
NEXT_TO_FILE = ".attestation.json"
PIECE_BYTES = 2**20
CLOCK_SKEW = timedelta(minutes=5)


class UnsignedError(ValueError):
    """The attestation is missing; the message says where one was expected."""


class MismatchError(ValueError):
    """The attestation doesn't hold for what it was checked against; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a verdict must be: of this policy (a name or a digest), and no older than this.

    One whose profile only reported broken rules matches only if `reported` says so.
    """

    policy: str | None = None
    max_age: timedelta | None = None
    reported: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What an attestation says, once it is known to hold."""

    subject: str
    key_id: str
    statement: Mapping[str, object]

    @property
    def predicate(self) -> Mapping[str, Any]:
        """Return what was said of the subject."""
        predicate = self.statement["predicate"]
        return predicate if isinstance(predicate, dict) else {}


def verify(
    path: Path,
    keys: Sequence[PublicKey],
    *,
    attestation: Path | None = None,
    wanted: Wanted = Wanted(),
    now: datetime | None = None,
) -> Verified:
    """Check a bundle (folder or .tar), an attestation of a batch, or a file with its attestation.

    Raises: UnsignedError, MismatchError; OSError, if a file can't be read.
    """
    if path.is_dir() or path.suffix == ".tar":
        opened, subject = _verify_bundle(path, keys)
    elif path.name.endswith(".json") and attestation is None and not _beside(path).exists():
        opened, subject = _open(path.read_bytes(), keys), "the batch"
        _expect_type(opened, BATCH_TYPE)
    else:
        opened, subject = _verify_file(path, attestation or _beside(path), keys), path.name
    _check_verdict(opened)
    _check_wanted(opened, wanted, now or datetime.now(UTC))
    return Verified(subject=subject, key_id=opened.key_id, statement=opened.statement)


def _beside(path: Path) -> Path:
    return path.with_name(path.name + NEXT_TO_FILE)


def _verify_bundle(path: Path, keys: Sequence[PublicKey]) -> tuple[Opened, str]:
    with _files_of(path) as files:
        found: dict[str, str] = {}
        envelope = None
        for name, opened in files:
            if name == ATTESTATION:
                envelope = opened.read(MOST_BYTES)
            elif name not in UNSIGNED_FILES:
                found[name] = _sha256(opened)
    if envelope is None:
        raise UnsignedError(f"{path} has no {ATTESTATION}: its daemon signs nothing")
    attested = _open(envelope, keys)
    _expect_type(attested, VERDICT_TYPE)
    signed = _mapping(_predicate(attested).get("files"))
    for name in sorted(signed.keys() | found.keys()):
        if name not in found:
            raise MismatchError(f"{name} is missing in the bundle")
        if name not in signed:
            raise MismatchError(f"{name} was added to the bundle: the attestation doesn't name it")
        if signed[name] != found[name]:
            raise MismatchError(f"{name} was changed after it was signed")
    return attested, str(_mapping(_predicate(attested).get("attempt")).get("id"))


def _verify_file(path: Path, attestation: Path, keys: Sequence[PublicKey]) -> Opened:
    if not attestation.exists():
        raise UnsignedError(f"{attestation} doesn't exist; name another with --attestation")
    with path.open("rb") as opened:
        digest = _sha256(opened)
    attested = _open(attestation.read_bytes()[: MOST_BYTES + 1], keys)
    _expect_type(attested, VERDICT_TYPE)
    subjects = attested.statement.get("subject")
    digests = {_mapping(_mapping(each).get("digest")).get("sha256") for each in _list(subjects)}
    if digest not in digests:
        raise MismatchError(f"the attestation is for other code than {path.name}")
    return attested


def _sha256(opened: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while piece := opened.read(PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _open(envelope: bytes, keys: Sequence[PublicKey]) -> Opened:
    try:
        return open_envelope(envelope, keys)
    except EnvelopeError as error:
        raise MismatchError(str(error)) from error


def _expect_type(opened: Opened, kind: str) -> None:
    found = opened.statement.get("predicateType")
    if found != kind:
        raise MismatchError(f"the attestation is of another type: {str(found)[:100]}, not {kind}")


def _check_verdict(opened: Opened) -> None:
    predicate = _predicate(opened)
    if opened.statement.get("predicateType") == VERDICT_TYPE:
        if predicate.get("verdict") != "validated":
            raise MismatchError(f"the verdict is {str(predicate.get('verdict'))[:20]!r}")
        return
    others = {
        name: count for name, count in _mapping(predicate.get("verdicts")).items() if name != "validated"
    }
    if others:
        raise MismatchError(
            f"not all items are validated: {', '.join(f'{n} {v}' for v, n in others.items())}"
        )


def _check_wanted(opened: Opened, wanted: Wanted, now: datetime) -> None:
    predicate = _predicate(opened)
    policy = _mapping(predicate.get("policy"))
    if policy.get("enforcement", "enforce") != "enforce" and not wanted.reported:
        raise MismatchError("its profile only reported broken rules; --allow-reported accepts that")
    if wanted.policy is not None:
        names = {policy.get("name"), _mapping(policy.get("digest")).get("sha256")}
        if wanted.policy not in names:
            raise MismatchError(f"it was judged by the policy {str(policy.get('name'))[:64]!r}")
    if wanted.max_age is None:
        return
    age = now - _moment(predicate.get("validatedAt"))
    if age > wanted.max_age:
        raise MismatchError(f"the verdict is {age.days} days and {age.seconds // 3600} hours old")
    if age < -CLOCK_SKEW:
        raise MismatchError("the verdict is from the future; compare the clocks of both machines")


def _moment(text: object) -> datetime:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError as error:
        raise MismatchError("the attestation doesn't say when it was made") from error


def _predicate(opened: Opened) -> Mapping[str, Any]:
    return _mapping(opened.statement.get("predicate"))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


@contextmanager
def _files_of(path: Path) -> Iterator[Iterable[tuple[str, IO[bytes]]]]:
    """Open the regular files of a bundle by their names in it; anything else in it is refused."""
    if path.is_dir():
        yield _in_folder(path)
        return
    try:
        with tarfile.open(path) as archive:
            yield _in_archive(archive)
    except tarfile.TarError as error:
        raise MismatchError(f"{path.name} is not a tar archive: {error}") from error


def _in_folder(folder: Path) -> Iterator[tuple[str, IO[bytes]]]:
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.is_symlink() or not (file.is_dir() or file.is_file()):
            raise MismatchError(f"{name} is not a regular file")
        if file.is_file():
            with file.open("rb") as opened:
                yield name, opened


def _in_archive(archive: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes]]]:
    """Return the files of an archive, whose names all begin with the bundle's."""
    names = set()
    for member in archive:
        name = member.name.partition("/")[2]
        opened = archive.extractfile(member) if member.isreg() else None
        if member.isdir():
            continue
        if opened is None or not name or name in names:
            raise MismatchError(f"{member.name[:200]!r} is not a regular file, or is in the archive twice")
        names.add(name)
        yield name, opened
