"""Makes certificates for a cluster on one machine: an authority of its own, and the gateway's, for loopback.

    python deploy/dev/cluster/certificates.py DIR [NAME_OR_ADDRESS…]

writes `ca.pem` (what clients and nodes believe), `gateway.pem` and `gateway.key` below DIR, unless there are
some that hold for a month more. The authority's key is forgotten: nothing more can be signed with it. This is
for trying things out; docs/operating/cluster.md says what a cluster of several hosts needs.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = 365
LEFT_DAYS = 30
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def main(folder: Path, names: list[str]) -> None:
    """Make what is missing or old."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _hold(folder):
        return
    start = datetime.now(UTC) - timedelta(hours=1)
    key, authority = _authority(start, start + timedelta(days=DAYS))
    own = ec.generate_private_key(ec.SECP256R1())
    signed = (
        _builder("assayd gateway", "assayd cluster authority", start, start + timedelta(days=DAYS))
        .public_key(own.public_key())
        .add_extension(x509.SubjectAlternativeName([_named(name) for name in (*LOOPBACK, *names)]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), False)
        .sign(key, hashes.SHA256())
    )
    private = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(folder / "gateway.key", private, 0o600)
    _write(folder / "gateway.pem", signed.public_bytes(serialization.Encoding.PEM), 0o644)
    _write(folder / "ca.pem", authority.public_bytes(serialization.Encoding.PEM), 0o644)


def _authority(start: datetime, end: datetime) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder("assayd cluster authority", "assayd cluster authority", start, end)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .add_extension(usage, True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .sign(key, hashes.SHA256())
    )
    return key, certificate


def _builder(subject: str, issuer: str, start: datetime, end: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _named(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _hold(folder: Path) -> bool:
    """Return whether all three are there, and hold for long enough."""
    files = [folder / name for name in ("ca.pem", "gateway.pem", "gateway.key")]
    if not all(file.exists() for file in files):
        return False
    found = x509.load_pem_x509_certificate(files[1].read_bytes())
    return found.not_valid_after_utc > datetime.now(UTC) + timedelta(days=LEFT_DAYS)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file whole; it never has more rights than it is to have."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    fresh.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
