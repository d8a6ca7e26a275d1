"""Verifies signed verdicts offline, against a bundle or file. A batch needs only its attestation.

All input is treated as hostile. Every mismatch is reported, and no input is extracted or run.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from assayd.model.attempt import ATTESTATION
from assayd_attestation.signatures import (
    BATCH_TYPE,
    MAX_BYTES,
    VERDICT_TYPE,
    EnvelopeError,
    PublicKey,
    VerifiedEnvelope,
    verify_envelope,
)

UNSIGNED_FILES = frozenset({ATTESTATION, "manifest.json"})
"""Files of a bundle that the attestation doesn't list: itself, and the manifest that contains its digest."""
SUBMISSION_SUBJECT = "submission"
"""The name of the subject that represents the complete submission."""
ATTESTATION_SUFFIX = ".attestation.json"
PIECE_BYTES = 2**20
CLOCK_SKEW = timedelta(minutes=5)


class UnsignedError(ValueError):
    """An exception raised if the attestation is missing. The message contains the expected location."""


class MismatchError(ValueError):
    """An exception raised if the attestation is invalid, or doesn't match the bundle, file or conditions.

    The message contains the reason.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The required properties of a verdict: kind, policy (a name or a digest), and maximum age.

    If `reported` isn't set, a verdict under a profile that only reports violations doesn't match.
    """

    kind: str | None = None
    policy: str | None = None
    max_age: timedelta | None = None
    reported: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedAttestation:
    """The contents of a verified attestation: the subject's name, the key id and the statement."""

    subject: str
    key_id: str
    statement: Mapping[str, object]

    @property
    def predicate(self) -> Mapping[str, Any]:
        """Return the predicate of the statement, or an empty dict if it isn't a JSON object."""
        predicate = self.statement["predicate"]
        return predicate if isinstance(predicate, dict) else {}


def verify(
    path: Path,
    keys: Sequence[PublicKey],
    *,
    attestation: Path | None = None,
    wanted: Wanted = Wanted(),
    now: datetime | None = None,
) -> VerifiedAttestation:
    """Verify the attestation in a bundle's folder, or the separate attestation of a file.

    Raises: UnsignedError, if the attestation is missing; MismatchError, if it is invalid or doesn't match;
    OSError, if a file can't be read.
    """
    if path.is_dir():
        opened, subject = _verify_bundle(path, keys)
    else:
        opened, subject = _verify_file(path, attestation or _get_attestation_path(path), keys)
    return _require_valid_verdict(opened, subject, wanted, now)


def verify_submission(
    envelope: bytes,
    input_digest: str,
    keys: Sequence[PublicKey],
    *,
    wanted: Wanted = Wanted(),
    now: datetime | None = None,
) -> VerifiedAttestation:
    """Verify the attestation of the submission with this digest.

    Raises: MismatchError, if the attestation is invalid, or is for another submission or verdict.
    """
    opened = _verify_attestation_envelope(envelope, keys)
    _require_predicate_type(opened, VERDICT_TYPE)
    subjects = [_mapping_or_empty(each) for each in _list_or_empty(opened.statement.get("subject"))]
    digests = [
        _mapping_or_empty(each.get("digest")).get("sha256")
        for each in subjects
        if each.get("name") == SUBMISSION_SUBJECT
    ]
    if input_digest not in digests:
        raise MismatchError("it is for another submission")
    return _require_valid_verdict(opened, SUBMISSION_SUBJECT, wanted, now)


def _require_valid_verdict(
    opened: VerifiedEnvelope, subject: str, wanted: Wanted, now: datetime | None
) -> VerifiedAttestation:
    predicate = _get_predicate(opened)
    if predicate.get("verdict") != "validated":
        raise MismatchError(f"the verdict is {_shorten_repr(predicate.get('verdict'))}")
    policy = _mapping_or_empty(predicate.get("policy"))
    judged = AttestedJudgement(
        kind=_mapping_or_empty(predicate.get("attempt")).get("kind"),
        policies=frozenset({policy.get("name"), _mapping_or_empty(policy.get("digest")).get("sha256")}),
        policy=policy.get("name"),
        enforcement=policy.get("enforcement"),
    )
    _check_requirements([judged], predicate, wanted, now)
    return VerifiedAttestation(subject=subject, key_id=opened.key_id, statement=opened.statement)


def verify_batch(
    path: Path, keys: Sequence[PublicKey], *, wanted: Wanted = Wanted(), now: datetime | None = None
) -> VerifiedAttestation:
    """Verify a batch's attestation, and require that every item was validated.

    Raises: MismatchError, if the attestation is invalid or doesn't match; OSError, if it can't be read.
    """
    opened = _verify_attestation_envelope(_read_attestation(path), keys)
    _require_predicate_type(opened, BATCH_TYPE)
    predicate = _get_predicate(opened)
    items = [_mapping_or_empty(item) for item in _list_or_empty(predicate.get("items"))]
    if not items:
        raise MismatchError("the batch has no items")
    others = Counter(
        _shorten_repr(item.get("verdict")) for item in items if item.get("verdict") != "validated"
    )
    if others:
        listed = ", ".join(f"{count} {verdict}" for verdict, count in others.items())
        raise MismatchError(f"not all items are validated: {listed}")
    judged = [
        AttestedJudgement(
            kind=item.get("kind"),
            policies=frozenset({item.get("policy")}),
            policy=item.get("policy"),
            enforcement=item.get("enforcement"),
        )
        for item in items
    ]
    _check_requirements(judged, predicate, wanted, now)
    name = str(_mapping_or_empty(predicate.get("batch")).get("name"))
    return VerifiedAttestation(subject=name, key_id=opened.key_id, statement=opened.statement)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestedJudgement:
    """The judgment of a submission as stated in an attestation.

    `policies` contains the name of the policy and, if it is known, the policy's digest.
    """

    kind: object
    policies: frozenset[object]
    policy: object
    enforcement: object


def _get_attestation_path(path: Path) -> Path:
    return path.with_name(path.name + ATTESTATION_SUFFIX)


def _verify_bundle(folder: Path, keys: Sequence[PublicKey]) -> tuple[VerifiedEnvelope, str]:
    if not (folder / ATTESTATION).is_file():
        raise UnsignedError(f"{folder} has no {ATTESTATION}: its daemon signs nothing")
    attested = _verify_attestation_envelope(_read_attestation(folder / ATTESTATION), keys)
    _require_predicate_type(attested, VERDICT_TYPE)
    signed = _mapping_or_empty(_get_predicate(attested).get("files"))
    found = dict(_iter_file_digests(folder))
    for name in sorted(signed.keys() | found.keys()):
        if name not in found:
            raise MismatchError(f"{name} is missing in the bundle")
        if name not in signed:
            raise MismatchError(f"{name} was added to the bundle: the attestation doesn't name it")
        if signed[name] != found[name]:
            raise MismatchError(f"{name} was changed after it was signed")
    return attested, str(_mapping_or_empty(_get_predicate(attested).get("attempt")).get("id"))


def _verify_file(path: Path, attestation: Path, keys: Sequence[PublicKey]) -> tuple[VerifiedEnvelope, str]:
    if not attestation.exists():
        raise UnsignedError(f"{attestation} doesn't exist; name another with --attestation")
    attested = _verify_attestation_envelope(_read_attestation(attestation), keys)
    _require_predicate_type(attested, VERDICT_TYPE)
    with path.open("rb") as opened:
        digest = _hash_file(opened)
    for each in _list_or_empty(attested.statement.get("subject")):
        subject = _mapping_or_empty(each)
        if _mapping_or_empty(subject.get("digest")).get("sha256") == digest and _matches_subject_name(
            path, subject.get("name")
        ):
            return attested, path.name
    raise MismatchError(f"the attestation is for code other than {path.name}")


def _matches_subject_name(path: Path, subject: object) -> bool:
    """Return whether a file's name is compatible with a subject's name.

    Only a subject ``files.PATH``, which is a file of a module, requires a specific file name.
    """
    within, _, name = str(subject).partition(".")
    return within != "files" or path.name == name.rpartition("/")[2]


def _hash_file(opened: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while piece := opened.read(PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _verify_attestation_envelope(envelope: bytes, keys: Sequence[PublicKey]) -> VerifiedEnvelope:
    try:
        return verify_envelope(envelope, keys)
    except EnvelopeError as error:
        raise MismatchError(str(error)) from error


def _require_predicate_type(opened: VerifiedEnvelope, kind: str) -> None:
    found = opened.statement.get("predicateType")
    if found != kind:
        raise MismatchError(f"the attestation is of another type: {str(found)[:100]}, not {kind}")


def _check_requirements(
    judged: Sequence[AttestedJudgement], predicate: Mapping[str, Any], wanted: Wanted, now: datetime | None
) -> None:
    for each in judged:
        if each.enforcement != "enforce" and not wanted.reported:
            raise MismatchError("its profile only reported broken rules; --allow-reported accepts that")
        if wanted.kind not in {None, each.kind}:
            raise MismatchError(f"it was judged as {_shorten_repr(each.kind)}")
        if wanted.policy is not None and wanted.policy not in each.policies:
            raise MismatchError(f"it was judged by the policy {_shorten_repr(each.policy)}")
    if wanted.max_age is None:
        return
    age = (now or datetime.now(UTC)) - _parse_time(predicate.get("validatedAt"))
    if age > wanted.max_age:
        raise MismatchError(f"the verdict is {age.days} days and {age.seconds // 3600} hours old")
    if age < -CLOCK_SKEW:
        raise MismatchError("the verdict is from the future; compare the clocks of both machines")


def _parse_time(text: object) -> datetime:
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError as error:
        raise MismatchError("the attestation doesn't say when it was made") from error
    if time.tzinfo is None:
        raise MismatchError("the attestation's time has no time zone")
    return time


def _get_predicate(opened: VerifiedEnvelope) -> Mapping[str, Any]:
    return _mapping_or_empty(opened.statement.get("predicate"))


def _mapping_or_empty(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list_or_empty(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _shorten_repr(value: object) -> str:
    return repr(str(value)[:64])


def _read_attestation(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(MAX_BYTES + 1)


def _iter_file_digests(bundle: Path) -> Iterator[tuple[str, str]]:
    """Yield the relative path and the SHA-256 digest of each signed file in a bundle's folder.

    Raises: MismatchError, if the folder contains anything except regular files and folders.
    """
    for folder, folders, files in os.walk(bundle, onerror=_raise_os_error):
        for name in (*folders, *files):
            path = Path(folder, name)
            shown = path.relative_to(bundle).as_posix()
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise MismatchError(f"{shown} is not a regular file")
            if path.is_file() and shown not in UNSIGNED_FILES:
                with path.open("rb") as opened:
                    yield shown, _hash_file(opened)


def _raise_os_error(problem: OSError) -> None:
    raise problem
