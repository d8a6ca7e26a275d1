"""Checks that connections to other hosts are encrypted, and that they verify the server's name."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from assayd.errors import ConfigError

_WHERE_TO = ("host", "hostaddr", "service", "servicefile", "passfile")
"""Parameters of a database URL that determine its host."""


def require_encrypted_broker(urls: str, setting: str) -> None:
    """Check that the broker is local or uses TLS. Raises: ConfigError ``settings.invalid``."""
    for url in urls.split(";"):
        _require_encrypted_url(url, setting, encrypted="amqps", plain="amqp")


def require_encrypted_management(url: str, setting: str) -> None:
    """Check that the broker's management API is local or uses TLS. Raises: ConfigError."""
    _require_encrypted_url(url, setting, encrypted="https", plain="http")


def require_encrypted_gateway(url: str, setting: str) -> None:
    """Check that the gateway is local or uses TLS. Raises: ConfigError ``settings.invalid``."""
    if not url.startswith("http+unix:///"):
        _require_encrypted_url(url, setting, encrypted="https", plain="http")


def require_encrypted_database(url: str, setting: str) -> None:
    """Check that the database is local or uses TLS. Raises: ConfigError ``settings.invalid``."""
    try:
        parts = make_url(url)
    except ArgumentError:
        raise ConfigError("settings.invalid", f"{setting}: not a database URL", field=setting) from None
    named = [parts.host or ""]
    for name in _WHERE_TO:
        given = parts.query.get(name, ())
        named += [given] if isinstance(given, str) else given
    hosts = [host for each in named for host in each.split(",") if host]
    if parts.query.get("sslmode") != "verify-full" and not all(map(_is_local_host, hosts)):
        message = f"{setting}: a database on another host needs sslmode=verify-full (and sslrootcert)"
        raise ConfigError("settings.invalid", message, field=setting)


def _require_encrypted_url(url: str, setting: str, *, encrypted: str, plain: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == encrypted or (parts.scheme == plain and _is_local_host(parts.hostname or "")):
        return
    found = f"{parts.scheme}://{parts.hostname}"  # only this part, because the rest may contain a password
    message = f"{setting}: {found} must begin with {encrypted}:// ({plain}:// is allowed on loopback)"
    raise ConfigError("settings.invalid", message, field=setting)


def _is_local_host(host: str) -> bool:
    """Return whether a host is a directory of Unix sockets or a loopback address."""
    if host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
