"""Loads `assayd_attestation`, the optional package that signs verdicts, if a key is configured."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from assayd.errors import ConfigError
from assayd.ports.attesting import Attester
from assayd.ports.clock import Clock
from assayd.settings.model import AttestationSettings

PACKAGES = ("assayd_attestation", "cryptography")


def open_attester(settings: AttestationSettings, *, daemon_id: str, clock: Clock) -> Attester | None:
    """Return the attester, or None if no key is configured.

    Raises: ConfigError ``attestation.missing``, ``attestation.key``.
    """
    if not settings.is_on:
        return None
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        message = f"[attestation] needs {', '.join(missing)}: install assayd with the extra `attestation`"
        raise ConfigError("attestation.missing", message, field="attestation")
    wing = import_module("assayd_attestation.wiring")
    attester: Attester = wing.build_attester(settings, daemon_id=daemon_id, clock=clock)
    return attester
