"""Signed verdicts for tests: a finished attempt, its statement and its bundle."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from assayd.model.attempt import ATTESTATION
from assayd.model.policy import Enforcement
from assayd.model.report import Verdict
from assayd.model.run import ContainerFacts
from assayd.ports.artifacts import ConcludedAttempt
from assayd_attestation import signatures
from assayd_attestation.statement import FileSigner, SignerIdentity, SigningAttester
from support.stores.stored_attempts import Make

CODE = "result: int = 1\n"
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
FILES = {"submission_1.json": b'{"kind":"code"}', "stdout_1.log": b"", "files/out.csv": b"a,b\n1,2\n"}
SIGNATORY = SignerIdentity(daemon_id="01DAEMON", name="judge-1")


class FixedClock:
    """A clock that always shows the same time."""

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


def concluded(
    verdict: Verdict = Verdict.VALIDATED, enforcement: Enforcement = Enforcement.ENFORCE
) -> ConcludedAttempt:
    """Return a finished attempt with one source text."""
    attempt = replace(Make().attempt(), verdict=verdict)
    return ConcludedAttempt(
        attempt=attempt,
        policy_digest="ab" * 32,
        enforcement=enforcement,
        container=ContainerFacts(
            engine="oci 1.8", runtime="crun", image="assayd/python", image_digest="sha256:" + "cd" * 32
        ),
        limits={"network_mode": "blocked", "memory_mb": 256},
        findings={},
        cases=None,
        score=None,
        validated_at=NOW,
        files=FILES,
        sources=[("code", CODE)],
    )


def attester(file: Path) -> SigningAttester:
    """Return an attester that signs with the key in a file."""
    return SigningAttester(
        signer=FileSigner(signatures.read_private_key(file)), signatory=SIGNATORY, clock=FixedClock()
    )


@dataclass(frozen=True, slots=True)
class Signed:
    """A bundle with its attestation, and the keys that verify it."""

    folder: Path
    key: Path

    @property
    def keys(self) -> tuple[signatures.PublicKey, ...]:
        """Return the public keys."""
        return signatures.read_public_keys(signatures.get_public_key_path(self.key))

    @property
    def envelope(self) -> bytes:
        """Return the attestation."""
        return (self.folder / ATTESTATION).read_bytes()


async def signed_bundle(
    tmp_path: Path, verdict: Verdict = Verdict.VALIDATED, enforcement: Enforcement = Enforcement.ENFORCE
) -> Signed:
    """Write a bundle that is signed with a new key."""
    key, folder = tmp_path / "daemon.key", tmp_path / "bundle"
    signatures.create_key_pair(key)
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "manifest.json").write_text("{}")
    (folder / ATTESTATION).write_bytes(await attester(key).attest(concluded(verdict, enforcement)))
    return Signed(folder, key)


def sha256(text: bytes) -> str:
    """Return a SHA-256 digest in hexadecimal."""
    return hashlib.sha256(text).hexdigest()
