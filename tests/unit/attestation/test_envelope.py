"""The format, checked with public packages."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from google.protobuf.json_format import ParseDict
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from assayd_attestation import signatures
from assayd_attestation.signatures import EnvelopeError
from support.signed import CODE, sha256, signed_bundle


async def test_envelope_verifies_with_the_public_dsse_package(tmp_path: Path) -> None:
    signed = await signed_bundle(tmp_path)
    (public,) = signed.keys
    key = SSlibKey.from_crypto(public.key, keyid=public.id)

    opened = Envelope.from_dict(json.loads(signed.envelope))

    assert opened.verify([key], 1).keys() == {public.id}
    assert opened.pae() == signatures.encode_pre_authentication(opened.payload)


async def test_statement_is_a_valid_in_toto_statement(tmp_path: Path) -> None:
    signed = await signed_bundle(tmp_path)
    payload = json.loads(base64.b64decode(json.loads(signed.envelope)["payload"]))

    statement = Statement.copy_from_pb(ParseDict(payload, StatementMessage()))
    statement.validate()

    assert {subject.name: subject.digest["sha256"] for subject in statement.pb.subject}["code"] == sha256(
        CODE.encode()
    )


async def test_changed_statement_is_refused(tmp_path: Path) -> None:
    signed = await signed_bundle(tmp_path)
    written = json.loads(signed.envelope)
    payload = base64.b64decode(written["payload"]).replace(b"judge-1", b"judge-2")
    written["payload"] = base64.b64encode(payload).decode()

    with pytest.raises(EnvelopeError, match="not by this key"):
        signatures.verify_envelope(json.dumps(written).encode(), signed.keys)


async def test_signature_of_another_daemons_key_is_refused(tmp_path: Path) -> None:
    signed = await signed_bundle(tmp_path)

    with pytest.raises(EnvelopeError, match="not by this key"):
        signatures.verify_envelope(signed.envelope, [signatures.create_key_pair(tmp_path / "other")])


async def test_bundle_of_before_a_rotation_stays_verifiable(tmp_path: Path) -> None:
    signed = await signed_bundle(tmp_path)
    old = signed.keys[0].id
    signatures.rotate_key_pair(signed.key)

    assert signatures.verify_envelope(signed.envelope, signed.keys).key_id == old


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "isn't valid JSON"),
        (b"[]", "not a JSON object"),
        (b'{"payloadType":"text/plain"}', "payloadType"),
        (b'{"payloadType":"application/vnd.in-toto+json"}', "payload is not base64"),
        (b'{"payloadType":"application/vnd.in-toto+json","payload":"","signatures":[]}', "not by this key"),
        (
            b'{"payloadType":"application/vnd.in-toto+json","payload":"","signatures":[1]}',
            "sig is not base64",
        ),
        (b"[" * 100_000, "isn't valid JSON"),
    ],
)
def test_what_is_no_envelope_is_refused_with_the_reason(text: bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(EnvelopeError, match=reason):
        signatures.verify_envelope(text, [signatures.create_key_pair(tmp_path / "k")])
