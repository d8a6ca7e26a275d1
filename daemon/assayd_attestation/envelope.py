"""DSSE envelopes of in-toto statements, their predicate types, and their verification with public keys.

Creates DSSE envelopes that contain in-toto statements, and verifies them with public keys.

Source: https://github.com/secure-systems-lab/dsse (protocol.md, envelope.md), version 1.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature

from assayd.model.json_reader import JsonError, JsonLimits, parse_strictly
from assayd_attestation.keys import PublicKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
MAX_BYTES = 64 * 2**20
_MOST_SIGNATURES = 16
_LIMITS = JsonLimits(bytes=MAX_BYTES, depth=16, containers=1_000_000, values=4_000_000, number_chars=40)


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

    Raises: EnvelopeError.
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
    for each in signatures[:_MOST_SIGNATURES] if isinstance(signatures, list) else ():
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
        value = parse_strictly(text, _LIMITS)
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


VERDICT_TYPE = "urn:assayd:attestation:verdict:1"
BATCH_TYPE = "urn:assayd:attestation:batch:1"
