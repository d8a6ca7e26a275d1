"""Builds the in-toto statements about attempts and batches, and signs them.

The subjects are the submission and the texts that were checked and run. The predicate contains the verdict
and the digests of the bundle's other files. docs/attestations.md describes both predicates.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from assayd import __version__
from assayd.clock import Clock
from assayd.documents.base import format_optional_time
from assayd.errors import AssaydError
from assayd.model.attempt import Attempt
from assayd.model.batch import Batch, BatchItem
from assayd.model.finding import Severity
from assayd.ports.artifacts import ConcludedAttempt
from assayd_attestation import signatures
from assayd_attestation.signatures import (
    BATCH_TYPE,
    STATEMENT_TYPE,
    VERDICT_TYPE,
    create_envelope,
    encode_pre_authentication,
)

_CODING_PATTERN = re.compile(r"#.*?coding[:=][ \t]*([-\w.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignerIdentity:
    """The id of the signing daemon, and the name (if any) that the operator assigned to the daemon."""

    daemon_id: str
    name: str | None


def build_attempt_statement(concluded: ConcludedAttempt, signatory: SignerIdentity) -> bytes:
    """Return the in-toto statement about an attempt, encoded as JSON."""
    attempt = concluded.attempt
    sources = [
        (name, _hash_text(text.encode("utf-8", "replace")))
        for name, text in concluded.sources
        if _is_decoded_as_utf8(text)
    ]
    subjects = [("submission", attempt.input_digest), *sources]
    predicate: dict[str, object] = {
        "attempt": {
            "id": attempt.id,
            "kind": attempt.kind,
            "run": max(attempt.run_number, 1),
            "node": attempt.node,
        },
        "verdict": attempt.verdict,
        "cause": attempt.cause,
        "policy": {
            "name": attempt.policy,
            "digest": {"sha256": concluded.policy_digest},
            "enforcement": concluded.enforcement,
        },
        "sandbox": _build_sandbox_entry(concluded),
        "limits": dict(concluded.limits),
        "findings": {str(each): concluded.findings.get(str(each), 0) for each in Severity},
        "cases": None if concluded.cases is None else dict(concluded.cases),
        "score": concluded.score,
        "files": {name: _hash_text(text) for name, text in sorted(concluded.files.items())},
        "validatedAt": format_optional_time(concluded.validated_at),
        "daemon": _build_daemon_entry(signatory),
    }
    return _encode_statement(subjects, VERDICT_TYPE, predicate)


def build_batch_statement(
    batch: Batch, items: Sequence[tuple[BatchItem, Attempt | None]], signatory: SignerIdentity, now: datetime
) -> bytes:
    """Return the in-toto statement about a batch, encoded as JSON.

    The subjects are the batch's submissions, named by line number.
    """
    predicate = {
        "batch": {"id": batch.id, "name": batch.name},
        "verdicts": dict(Counter(str(item.verdict) for item, _ in items)),
        "items": [_build_item_entry(item, attempt) for item, attempt in items],
        "validatedAt": format_optional_time(batch.finished_at or now),
        "daemon": _build_daemon_entry(signatory),
    }
    subjects = [(f"line {item.line}", item.input_digest) for item, _ in items]
    return _encode_statement(subjects, BATCH_TYPE, predicate)


def _build_item_entry(item: BatchItem, attempt: Attempt | None) -> dict[str, object]:
    return {
        "line": item.line,
        "attempt": item.attempt_id,
        "verdict": str(item.verdict),
        "kind": attempt.kind if attempt is not None else None,
        "policy": attempt.policy if attempt is not None else None,
        "enforcement": str(attempt.enforcement) if attempt is not None else None,
    }


def _encode_statement(
    subjects: Sequence[tuple[str, str]], kind: str, predicate: Mapping[str, object]
) -> bytes:
    named = [{"name": name, "digest": {"sha256": sha256}} for name, sha256 in subjects]
    statement = {"_type": STATEMENT_TYPE, "subject": named, "predicateType": kind, "predicate": predicate}
    return json.dumps(statement, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _is_decoded_as_utf8(text: str) -> bool:
    """Return whether Python decodes a file with this text as UTF-8, as the check did.

    Python decodes a file in the encoding that one of the file's first two lines declares (PEP 263).
    """
    first = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n").split("\n", 4)[:4]
    named = [match[1] for line in first if (match := _CODING_PATTERN.search(line))]
    return all(name.lower().replace("_", "-") in {"utf-8", "utf8"} for name in named)


def _build_sandbox_entry(concluded: ConcludedAttempt) -> dict[str, object] | None:
    container = concluded.container
    if container is None:
        return None
    return {
        "engine": container.engine,
        "runtime": container.runtime,
        "image": {"name": container.image, "digest": container.image_digest or None},
        "network": concluded.limits.get("network_mode"),
    }


def _build_daemon_entry(signatory: SignerIdentity) -> dict[str, object]:
    return {"id": signatory.daemon_id, "name": signatory.name, "version": __version__}


def _hash_text(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


LARGE_BYTES = 2**20
"""The total size of a bundle's files above which the files are hashed in a thread."""
_MAX_OUTPUT_BYTES = 4096
_MAX_ERROR_CHARS = 300


class Signer(Protocol):
    """A signer that signs bytes with one key."""

    key_id: str

    async def sign(self, text: bytes) -> bytes:
        """Return the Ed25519 signature of `text`.

        Raises: AssaydError ``attestation.failed``, if it can't be created.
        """
        ...


class FileSigner:
    """A signer that uses a private key from a file."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.key_id = signatures.PublicKey(key.public_key()).id

    async def sign(self, text: bytes) -> bytes:
        """Return the Ed25519 signature of `text`, made with the key from the file."""
        return self._key.sign(text)


class CommandSigner:
    """A signer that runs a program, which receives the bytes and prints a base64 signature.

    Every signature is verified with the public key before it is used.
    """

    def __init__(self, command: Sequence[str], public: signatures.PublicKey, timeout_s: float) -> None:
        self._command = tuple(command)
        self._public = public
        self._timeout_s = timeout_s
        self.key_id = public.id

    async def sign(self, text: bytes) -> bytes:
        """Return the signature that the program prints.

        Raises: AssaydError ``attestation.failed``, if the program fails or its output isn't a valid
        signature.
        """
        printed = await self._run_command(text)
        try:
            signature = base64.b64decode(printed.strip(), validate=True)
            self._public.key.verify(signature, text)
        except (binascii.Error, ValueError, InvalidSignature) as error:
            raise _build_failed_error("its output isn't a signature by attestation.command_key") from error
        return signature

    async def _run_command(self, text: bytes) -> bytes:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise _build_failed_error(f"{self._command[0]} can't be started: {error.strerror}") from error
        try:
            async with asyncio.timeout(self._timeout_s):
                printed, said = await process.communicate(text)
        except TimeoutError as error:
            raise _build_failed_error(
                f"{self._command[0]} has not answered within {self._timeout_s:g} s"
            ) from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0 or len(printed) > _MAX_OUTPUT_BYTES:
            reason = (
                said.decode("utf-8", "replace").strip()[:_MAX_ERROR_CHARS] or "no reason on standard error"
            )
            raise _build_failed_error(f"{self._command[0]} ended with {process.returncode}: {reason}")
        return printed


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningAttester:
    """An attester that signs statements. Implements `ports.artifacts.Attester`."""

    signer: Signer
    signatory: SignerIdentity
    clock: Clock

    async def attest(self, concluded: ConcludedAttempt) -> bytes:
        """Return the DSSE envelope with the signed statement about an attempt.

        Raises: AssaydError ``attestation.failed``, if the statement can't be signed.
        """
        if sum(map(len, concluded.files.values())) > LARGE_BYTES:
            payload = await asyncio.to_thread(build_attempt_statement, concluded, self.signatory)
        else:
            payload = build_attempt_statement(concluded, self.signatory)
        return await self._sign_envelope(payload)

    async def attest_batch(self, batch: Batch, items: Sequence[tuple[BatchItem, Attempt | None]]) -> bytes:
        """Return the DSSE envelope with the signed statement about a finished batch and its items.

        Raises: AssaydError ``attestation.failed``, if the statement can't be signed.
        """
        now = self.clock.now()
        return await self._sign_envelope(
            await asyncio.to_thread(build_batch_statement, batch, items, self.signatory, now)
        )

    async def _sign_envelope(self, payload: bytes) -> bytes:
        signature = await self.signer.sign(encode_pre_authentication(payload))
        return create_envelope(payload, key_id=self.signer.key_id, signature=signature)


def _build_failed_error(reason: str) -> AssaydError:
    return AssaydError("attestation.failed", f"the verdict can't be signed: {reason}")
