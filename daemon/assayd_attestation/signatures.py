"""Signs statements in DSSE envelopes with Ed25519 keys, and verifies the envelopes with public keys.

Keys are PEM files: `FILE` contains the private key, and `FILE.pub` contains the public keys, of which the
newest is the first. A rotation keeps the older public keys, so that older signatures can still be verified.

Source: https://github.com/secure-systems-lab/dsse (protocol.md, envelope.md), version 1.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from assayd.model.json_reader import JsonError, JsonLimits, parse_strictly

_PEM_BLOCK = re.compile(rb"-----BEGIN [A-Z0-9 ]+-----.+?-----END [A-Z0-9 ]+-----\n?", re.DOTALL)
_MAX_BYTES = 2**20

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
MAX_BYTES = 64 * 2**20
_MAX_SIGNATURES = 16
_JSON_LIMITS = JsonLimits(bytes=MAX_BYTES, depth=16, containers=1_000_000, values=4_000_000, number_chars=40)
VERDICT_TYPE = "urn:assayd:attestation:verdict:1"
BATCH_TYPE = "urn:assayd:attestation:batch:1"


class KeyFileError(ValueError):
    """An exception raised if a key file can't be used. The message contains the file and the remedy."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """An Ed25519 public key for verifying signatures."""

    key: Ed25519PublicKey

    @property
    def id(self) -> str:
        """Return the SHA-256 digest of the key's SubjectPublicKeyInfo in hexadecimal."""
        encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        return hashlib.sha256(self.key.public_bytes(encoding, form)).hexdigest()

    @property
    def pem(self) -> bytes:
        """Return the public key in PEM format."""
        encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        return self.key.public_bytes(encoding, form)


def get_public_key_path(private: Path) -> Path:
    """Return the path of the public-key file that belongs to a private key."""
    return private.with_name(f"{private.name}.pub")


def create_key_pair(file: Path) -> PublicKey:
    """Create a private key and its public key in new files.

    Raises: KeyFileError, if a file exists or can't be written.
    """
    for each in (file, get_public_key_path(file)):
        if each.exists():
            raise KeyFileError(f"{each} exists; choose another name, or run: assay keys rotate {file}")
    key = Ed25519PrivateKey.generate()
    public = PublicKey(key.public_key())
    _write_atomically(file, _encode_private_pem(key), mode=0o600)
    _write_atomically(get_public_key_path(file), public.pem, mode=0o644)
    return public


def rotate_key_pair(file: Path) -> PublicKey:
    """Replace a private key, and add the new public key before the older ones.

    Raises: KeyFileError, if a file can't be read or written.
    """
    old = PublicKey(read_private_key(file).public_key())
    known = (
        [each.pem for each in read_public_keys(get_public_key_path(file))]
        if get_public_key_path(file).exists()
        else []
    )
    key = Ed25519PrivateKey.generate()
    public = PublicKey(key.public_key())
    olds = known if old.pem in known else [old.pem, *known]
    _write_atomically(get_public_key_path(file), b"".join([public.pem, *olds]), mode=0o644)
    _write_atomically(file, _encode_private_pem(key), mode=0o600)
    return public


def read_private_key(file: Path) -> Ed25519PrivateKey:
    """Read a private key from a file that only its owner can read.

    Raises: KeyFileError, if the file can't be read, other users can read it, or it doesn't contain an Ed25519
    key.
    """
    mode, text = _read_file_with_mode(file)
    if mode & 0o077:
        raise KeyFileError(f"{file} is readable by other users; run: chmod 600 {file}")
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyFileError(f"{file} is not a private key in PEM without a password") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{file} is not an Ed25519 key; create one with: assay keys new FILE")
    return key


def read_public_keys(file: Path) -> tuple[PublicKey, ...]:
    """Read all public keys in a file. Raises: KeyFileError, also if the file doesn't contain any."""
    _, text = _read_file_with_mode(file)
    keys = []
    for block in _PEM_BLOCK.findall(text):
        if b"PRIVATE" in block.splitlines()[0]:
            raise KeyFileError(
                f"{file} holds a private key; name its public key: {get_public_key_path(file)}"
            )
        try:
            key = serialization.load_pem_public_key(block)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise KeyFileError(f"{file} holds a block that is not a public key in PEM") from error
        if not isinstance(key, Ed25519PublicKey):
            raise KeyFileError(f"{file} holds a key that is not Ed25519")
        keys.append(PublicKey(key))
    if not keys:
        raise KeyFileError(f"{file} holds no public key in PEM")
    return tuple(keys)


def _encode_private_pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _read_file_with_mode(file: Path) -> tuple[int, bytes]:
    """Return the permission bits and the content of a file, read through one descriptor.

    Raises: KeyFileError, if the file can't be read or isn't a regular file.
    """
    try:
        with file.open("rb") as opened:
            about = os.fstat(opened.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise KeyFileError(f"{file} is not a regular file")
            return stat.S_IMODE(about.st_mode), opened.read(_MAX_BYTES)
    except OSError as error:
        raise KeyFileError(f"can't read the key file {file}: {error.strerror}") from error


def _write_atomically(file: Path, content: bytes, *, mode: int) -> None:
    """Write a file atomically, so that it never has partial content. Raises: KeyFileError, if this fails."""
    draft = file.with_name(f".{file.name}.new")
    try:
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(descriptor)
        draft.replace(file)
    except OSError as error:
        raise KeyFileError(f"can't write the key file {file}: {error.strerror}") from error


class EnvelopeError(ValueError):
    """An exception raised if an envelope is unreadable or isn't signed with any of the keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedEnvelope:
    """The statement in a verified envelope, with the id of the signing key."""

    statement: Mapping[str, object]
    key_id: str


def encode_pre_authentication(payload: bytes) -> bytes:
    """Return the DSSE pre-authentication encoding (PAE) of a payload, which is the byte string to sign."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def create_envelope(payload: bytes, *, key_id: str, signature: bytes) -> bytes:
    """Return a DSSE envelope as JSON, with the payload and one signature."""
    signatures = [{"keyid": key_id, "sig": base64.b64encode(signature).decode()}]
    body = base64.b64encode(payload).decode()
    return json.dumps({"payload": body, "payloadType": PAYLOAD_TYPE, "signatures": signatures}).encode()


def verify_envelope(text: bytes, keys: Sequence[PublicKey]) -> VerifiedEnvelope:
    """Verify an envelope, and return its statement and the id of the key that signed it.

    The statement is parsed only after its signature has been verified.

    Raises: EnvelopeError, if the envelope or statement is malformed, or isn't signed with any of the keys.
    """
    envelope = _parse_json_object(text, "the attestation")
    if envelope.get("payloadType") != PAYLOAD_TYPE:
        raise EnvelopeError(f"the attestation's payloadType isn't {PAYLOAD_TYPE}")
    payload = _decode_base64(envelope.get("payload"), "payload")
    key = _find_signer(envelope.get("signatures"), encode_pre_authentication(payload), keys)
    statement = _parse_json_object(payload, "the signed statement")
    if statement.get("_type") != STATEMENT_TYPE:
        raise EnvelopeError(f"the signed statement's _type isn't {STATEMENT_TYPE}")
    return VerifiedEnvelope(statement=statement, key_id=key.id)


def _find_signer(signatures: object, signed: bytes, keys: Sequence[PublicKey]) -> PublicKey:
    for each in signatures[:_MAX_SIGNATURES] if isinstance(signatures, list) else ():
        signature = _decode_base64(each.get("sig") if isinstance(each, dict) else None, "sig")
        for key in keys:
            try:
                key.key.verify(signature, signed)
            except InvalidSignature:
                continue
            return key
    shown = ", ".join(key.id[:16] for key in keys)
    raise EnvelopeError(f"the signature is not by this key ({shown})")


def _parse_json_object(text: bytes, what: str) -> Mapping[str, object]:
    try:
        value = parse_strictly(text, _JSON_LIMITS)
    except JsonError as error:
        raise EnvelopeError(f"{what} isn't valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise EnvelopeError(f"{what} is not a JSON object")
    return value


def _decode_base64(text: object, what: str) -> bytes:
    try:
        return base64.b64decode(text if isinstance(text, str) else "?", validate=True)
    except (binascii.Error, ValueError) as error:
        raise EnvelopeError(f"the attestation's {what} is not base64") from error
