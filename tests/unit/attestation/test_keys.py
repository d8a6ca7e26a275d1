from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from assayd_attestation import signatures
from assayd_attestation.signatures import KeyFileError


def test_new_key_is_for_its_owner_alone_and_signs_for_its_public_key(tmp_path: Path) -> None:
    public = signatures.create_key_pair(tmp_path / "k")

    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600
    assert signatures.read_public_keys(tmp_path / "k.pub") == (public,)
    public.key.verify(signatures.read_private_key(tmp_path / "k").sign(b"a"), b"a")


def test_new_key_does_not_replace_one_that_exists(tmp_path: Path) -> None:
    signatures.create_key_pair(tmp_path / "k")
    before = (tmp_path / "k").read_bytes()

    with pytest.raises(KeyFileError, match="exists; choose another name"):
        signatures.create_key_pair(tmp_path / "k")
    assert (tmp_path / "k").read_bytes() == before


def test_rotated_key_is_new_and_the_older_public_keys_stay(tmp_path: Path) -> None:
    first = signatures.create_key_pair(tmp_path / "k")
    second = signatures.rotate_key_pair(tmp_path / "k")
    third = signatures.rotate_key_pair(tmp_path / "k")

    assert signatures.read_public_keys(tmp_path / "k.pub") == (third, second, first)
    assert signatures.PublicKey(signatures.read_private_key(tmp_path / "k").public_key()) == third


def test_private_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    signatures.create_key_pair(tmp_path / "k")
    (tmp_path / "k").chmod(0o640)

    with pytest.raises(KeyFileError, match="chmod 600"):
        signatures.read_private_key(tmp_path / "k")


def test_private_key_is_not_taken_for_a_public_one(tmp_path: Path) -> None:
    signatures.create_key_pair(tmp_path / "k")

    with pytest.raises(KeyFileError, match=r"name its public key: .*k\.pub"):
        signatures.read_public_keys(tmp_path / "k")


def test_file_that_is_not_an_ed25519_key_is_refused(tmp_path: Path) -> None:
    foreign = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (tmp_path / "rsa").write_bytes(foreign.private_bytes(encoding, form, serialization.NoEncryption()))
    (tmp_path / "text").write_text("hello")
    for name in ("rsa", "text"):
        (tmp_path / name).chmod(0o600)

    with pytest.raises(KeyFileError, match="not an Ed25519 key"):
        signatures.read_private_key(tmp_path / "rsa")
    with pytest.raises(KeyFileError, match="not a private key"):
        signatures.read_private_key(tmp_path / "text")
    with pytest.raises(KeyFileError, match="holds no public key"):
        signatures.read_public_keys(tmp_path / "text")
    with pytest.raises(KeyFileError, match="No such file"):
        signatures.read_public_keys(tmp_path / "nothere")
