"""Signs statements, either with a key from a file or with a program that has access to a key."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from assayd.errors import AssaydError
from assayd.model.attempt import Attempt
from assayd.model.batch import Batch, BatchItem
from assayd.ports.artifacts import ConcludedAttempt
from assayd.ports.clock import Clock
from assayd_attestation import keys, statement
from assayd_attestation.envelope import create_envelope, encode_for_signing
from assayd_attestation.statement import Signatory

LARGE_BYTES = 2**20
"""Of a bundle's files; from here on they are hashed in a thread."""
_MOST_ANSWER = 4096
_MOST_ERROR = 300


class Signer(Protocol):
    """A signer that signs bytes with one key."""

    key_id: str

    async def sign(self, text: bytes) -> bytes:
        """Return the signature of the content. Raises: AssaydError ``attestation.failed``."""
        ...


class FileSigner:
    """A signer that uses a key from a file."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.key_id = keys.PublicKey(key.public_key()).id

    async def sign(self, text: bytes) -> bytes:
        """Return the signature of the content made with the key from the file."""
        return self._key.sign(text)


class CommandSigner:
    """A signer that runs a program, which receives the bytes and prints a base64 signature.

    Every signature is verified with the public key before it is used.
    """

    def __init__(self, command: Sequence[str], public: keys.PublicKey, timeout_s: float) -> None:
        self._command = tuple(command)
        self._public = public
        self._timeout_s = timeout_s
        self.key_id = public.id

    async def sign(self, text: bytes) -> bytes:
        """Return the signature that the program prints. Raises: AssaydError ``attestation.failed``."""
        printed = await self._run_command(text)
        try:
            signature = base64.b64decode(printed.strip(), validate=True)
            self._public.key.verify(signature, text)
        except (binascii.Error, ValueError, InvalidSignature) as error:
            raise _failed_error("its output isn't a signature by attestation.command_key") from error
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
            raise _failed_error(f"{self._command[0]} can't be started: {error.strerror}") from error
        try:
            async with asyncio.timeout(self._timeout_s):
                printed, said = await process.communicate(text)
        except TimeoutError as error:
            raise _failed_error(
                f"{self._command[0]} has not answered within {self._timeout_s:g} s"
            ) from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0 or len(printed) > _MOST_ANSWER:
            reason = said.decode("utf-8", "replace").strip()[:_MOST_ERROR] or "no reason on standard error"
            raise _failed_error(f"{self._command[0]} ended with {process.returncode}: {reason}")
        return printed


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningAttester:
    """An attester that signs statements. Implements `ports.attesting.Attester`."""

    signer: Signer
    signatory: Signatory
    clock: Clock

    async def attest(self, concluded: ConcludedAttempt) -> bytes:
        """Return the signed statement about an attempt."""
        if sum(map(len, concluded.files.values())) > LARGE_BYTES:
            payload = await asyncio.to_thread(statement.build_attempt_statement, concluded, self.signatory)
        else:
            payload = statement.build_attempt_statement(concluded, self.signatory)
        return await self._sign_envelope(payload)

    async def attest_batch(self, batch: Batch, items: Sequence[tuple[BatchItem, Attempt | None]]) -> bytes:
        """Return the signed statement about a finished batch, which lists its items and stored attempts."""
        now = self.clock.now()
        return await self._sign_envelope(
            await asyncio.to_thread(statement.build_batch_statement, batch, items, self.signatory, now)
        )

    async def _sign_envelope(self, payload: bytes) -> bytes:
        signature = await self.signer.sign(encode_for_signing(payload))
        return create_envelope(payload, key_id=self.signer.key_id, signature=signature)


def _failed_error(reason: str) -> AssaydError:
    return AssaydError("attestation.failed", f"the verdict can't be signed: {reason}")
