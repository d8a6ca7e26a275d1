"""Builds the attester that the settings define."""

from __future__ import annotations

from assayd.clock import Clock
from assayd.errors import ConfigError
from assayd.settings.model import AttestationSettings
from assayd_attestation import signatures
from assayd_attestation.statement import CommandSigner, FileSigner, Signer, SignerIdentity, SigningAttester


def build_attester(settings: AttestationSettings, *, daemon_id: str, clock: Clock) -> SigningAttester:
    """Return the attester. Raises: ConfigError ``attestation.key``, if a key can't be used."""
    try:
        signer = _build_signer(settings)
    except signatures.KeyFileError as error:
        raise ConfigError("attestation.key", str(error), field="attestation") from error
    signatory = SignerIdentity(daemon_id=daemon_id, name=settings.name)
    return SigningAttester(signer=signer, signatory=signatory, clock=clock)


def _build_signer(settings: AttestationSettings) -> Signer:
    if settings.key is not None and settings.command:
        raise signatures.KeyFileError("both attestation.key and attestation.command are set; remove one")
    if settings.key is not None:
        return FileSigner(signatures.read_private_key(settings.key))
    if settings.command_key is None:
        raise signatures.KeyFileError(
            "attestation.command is set without attestation.command_key, its public key"
        )
    newest, *_ = signatures.read_public_keys(settings.command_key)
    return CommandSigner(settings.command, newest, settings.timeout_s)
