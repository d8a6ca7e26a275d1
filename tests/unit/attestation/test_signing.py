from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from assayd.errors import AssaydError, ConfigError
from assayd.settings.model import AttestationSettings
from assayd.wiring.wings import open_attester
from assayd_attestation import signatures
from assayd_attestation.signatures import verify_envelope
from assayd_attestation.statement import CommandSigner
from support.signed import FixedClock, attester, concluded

SIGNS = """
import base64, sys
from pathlib import Path
from assayd_attestation import signatures
key = signatures.read_private_key(Path(sys.argv[1]))
print(base64.b64encode(key.sign(sys.stdin.buffer.read())).decode())
"""


def command(program: str, key: Path, *, timeout_s: float = 60) -> CommandSigner:
    """Return a signer that runs a Python program with a key file."""
    return CommandSigner(
        [sys.executable, "-c", program, str(key)], signatures.create_key_pair(key), timeout_s
    )


async def test_command_that_signs_gives_a_signature_of_its_key(tmp_path: Path) -> None:
    signer = command(SIGNS, tmp_path / "k")

    (public,) = signatures.read_public_keys(tmp_path / "k.pub")
    public.key.verify(await signer.sign(b"text"), b"text")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit('no token')", "ended with 1: no token"),
        ("print('abc')", "isn't a signature by"),
        ("print('A' * 88)", "isn't a signature by"),
        ("print('A' * 100_000)", "ended with 0"),
    ],
)
async def test_command_that_does_not_sign_is_told_with_its_reason(
    program: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(AssaydError, match=reason) as raised:
        await command(program, tmp_path / "k").sign(b"text")
    assert raised.value.code == "attestation.failed"


async def test_command_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(AssaydError, match=r"has not answered within 0\.2 s"):
        await command("import time; time.sleep(600)", tmp_path / "k", timeout_s=0.2).sign(b"text")


async def test_command_that_is_missing_is_named(tmp_path: Path) -> None:
    signer = CommandSigner(["/nothere/sign"], signatures.create_key_pair(tmp_path / "k"), 1)

    with pytest.raises(AssaydError, match="/nothere/sign can't be started: No such file"):
        await signer.sign(b"text")


async def test_bundle_with_much_output_is_signed_as_any_other(tmp_path: Path) -> None:
    public = signatures.create_key_pair(tmp_path / "k")
    large = concluded()
    files = {**large.files, "files/large.bin": bytes(3 * 2**20)}

    envelope = await attester(tmp_path / "k").attest(replace(large, container=None, files=files))

    predicate = verify_envelope(envelope, [public]).statement["predicate"]
    assert isinstance(predicate, dict)
    assert "files/large.bin" in predicate["files"]
    assert predicate["sandbox"] is None


def test_nothing_signs_without_a_key() -> None:
    assert open_attester(AttestationSettings(), daemon_id="01D", clock=FixedClock()) is None


def test_two_signers_or_a_command_without_its_key_stop_the_start(tmp_path: Path) -> None:
    for settings, reason in [
        (AttestationSettings(key=tmp_path / "k", command=("sign",)), "both .* are set"),
        (AttestationSettings(command=("sign",)), "without attestation.command_key"),
    ]:
        with pytest.raises(ConfigError, match=reason):
            open_attester(settings, daemon_id="01D", clock=FixedClock())


def test_key_that_is_missing_stops_the_start(tmp_path: Path) -> None:
    settings = AttestationSettings(key=tmp_path / "nothere")

    with pytest.raises(ConfigError, match="can't read the key file") as raised:
        open_attester(settings, daemon_id="01D", clock=FixedClock())
    assert raised.value.code == "attestation.key"
