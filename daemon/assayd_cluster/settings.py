"""Defines the settings of a gateway and of a node, in addition to those of a daemon.

Also checks that the connections to other hosts that the settings name are encrypted and verify the server's
name.
"""

from __future__ import annotations

import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from assayd.errors import ConfigError
from assayd.settings import Count, LogSettings, RootSettings, Settings, load_program_settings
from assayd_cluster.documents import MAX_CAPACITY

GATEWAY_FILE = Path("/etc/assayd/gateway.toml")
NODE_FILE = Path("/etc/assayd/node.toml")
NODE_PREFIX = "ASSAYD_NODE_"
MAX_SECRET_BYTES = 64 * 2**10

_HOST_PARAMETERS = ("host", "hostaddr", "service", "servicefile", "passfile")
"""Parameters of a database URL that determine its host."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BundleSettings(_Section):
    """The settings of the bundle storage."""

    kind: Literal["directory", "s3"] = Field(
        "directory", description="Where bundles are stored: a shared directory or object storage."
    )
    directory: Path | None = Field(
        None,
        description=(
            "Shared directory (kind directory). Default: a folder of the state directory, for a "
            "single gateway."
        ),
        examples=["/srv/assayd/artifacts"],
    )
    endpoint: str | None = Field(
        None, description="Address of the object storage (kind s3).", examples=["https://s3.example.org"]
    )
    bucket: str = Field("assayd", description="Bucket (kind s3).")
    region: str = Field("us-east-1", description="Region (kind s3).")
    access_key_file: Path | None = Field(None, description="File with the id of the access key (kind s3).")
    secret_key_file: Path | None = Field(None, description="File with the secret key (kind s3).")
    ca_file: Path | None = Field(
        None, description="CA certificates, PEM, to trust for the object storage (kind s3)."
    )


class ClusterSettings(_Section):
    """The settings that a gateway has in addition to those of a daemon."""

    database_url_file: Path | None = Field(
        None,
        description="File with the SQLAlchemy URL of PostgreSQL.",
        examples=["/etc/assayd/database-url"],
    )
    database_mb: Count = Field(
        10_000,
        description="Database space for unfinished submissions of all tenants, in MB. One tenant can use at "
        "most as much as is free; beyond that, its submissions are refused.",
    )
    broker_url_file: Path | None = Field(
        None, description="File with the AMQP URL of RabbitMQ.", examples=["/etc/assayd/broker-url"]
    )
    broker_ca_file: Path | None = Field(None, description="CA certificates, PEM, to trust for the broker.")
    broker_management_url_file: Path | None = Field(
        None,
        description="File with the URL of RabbitMQ's management API, as an administrator: each node's "
        "token then comes with its own broker account. Unset: all nodes share one account.",
        examples=["/etc/assayd/broker-management-url"],
    )
    queue: str = Field(
        "assayd.attempts", description="Queue of attempts; the same on all gateways and nodes of a cluster."
    )
    longest_run_h: Count = Field(6, description="Hours after which an attempt on a node counts as lost.")
    node_capacity: Annotated[Count, Field(le=MAX_CAPACITY)] = Field(
        64,
        description="Attempts that a node may have in hand at once; a larger capacity counts as this.",
    )
    listen: str | None = Field(
        None,
        description="Address and port for clients and nodes, with TLS. Default: only the Unix socket.",
        examples=["0.0.0.0:8443"],
    )
    certificate_file: Path | None = Field(None, description="Certificate chain for `listen`, PEM.")
    key_file: Path | None = Field(
        None, description="Private key for `listen`, PEM, readable only by the gateway."
    )
    bundles: BundleSettings = BundleSettings()


class GatewaySettings(Settings):
    """All settings of a gateway: those of a daemon and those of the cluster."""

    cluster: ClusterSettings = ClusterSettings()


class NodeSettings(RootSettings):
    """All settings of a node's worker."""

    name: str = Field(
        default_factory=socket.gethostname,
        pattern=r"^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$",
        description="Name of the node, to which its token is bound. Default: the host name.",
        examples=["node-1"],
    )
    gateway: str = Field(
        "http+unix:///run/assayd/gateway.sock",
        description="Address of a gateway: https://HOST:PORT, or http+unix://PATH.",
    )
    token_file: Path | None = Field(None, description="File with the node's token.")
    ca_file: Path | None = Field(None, description="CA certificates, PEM, to trust for the gateway.")
    broker_url_file: Path | None = Field(None, description="File with the AMQP URL of RabbitMQ.")
    broker_ca_file: Path | None = Field(None, description="CA certificates, PEM, to trust for the broker.")
    queue: str = Field(
        "assayd.attempts", description="Queue of attempts; the same on all gateways and nodes of a cluster."
    )
    socket: Path = Field(Path("/run/assayd/assayd.sock"), description="Socket of the daemon on this host.")
    capacity: Annotated[Count, Field(le=MAX_CAPACITY)] = Field(
        4, description="Attempts that this node runs at once."
    )
    log: LogSettings = LogSettings()


def load_gateway_settings() -> GatewaySettings:
    """Read a gateway's settings from file and environment.

    Raises: ConfigError ``settings.invalid``, if a setting is unknown or invalid.
    """
    return load_program_settings(GatewaySettings, GATEWAY_FILE)


def load_node_settings() -> NodeSettings:
    """Read a node's settings from file and environment.

    Raises: ConfigError ``settings.invalid``, if a setting is unknown or invalid.
    """
    return load_program_settings(NodeSettings, NODE_FILE, NODE_PREFIX)


def read_secret(path: Path | None, setting: str) -> str:
    """Return the only line of a file with a secret.

    Raises: ConfigError ``settings.invalid``, if `path` is None, or the file is unreadable or doesn't have
    exactly one line.
    """
    if path is None:
        raise ConfigError(
            "settings.invalid", f"{setting}: required; set it to the file with the secret", field=setting
        )
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_SECRET_BYTES).strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError("settings.invalid", f"{setting}: can't read {path}: {problem}") from problem
    if not text or "\n" in text:
        message = f"{setting}: {path} holds {len(text.splitlines())} lines, but must hold one"
        raise ConfigError("settings.invalid", message, field=setting)
    return text


def require_encrypted_broker(urls: str, setting: str) -> None:
    """Raise ConfigError ``settings.invalid`` unless every broker is local or uses TLS."""
    for url in urls.split(";"):
        _require_encrypted_url(url, setting, encrypted="amqps", plain="amqp")


def require_encrypted_management(url: str, setting: str) -> None:
    """Raise ConfigError ``settings.invalid`` unless the broker's management API is local or uses TLS."""
    _require_encrypted_url(url, setting, encrypted="https", plain="http")


def require_encrypted_gateway(url: str, setting: str) -> None:
    """Raise ConfigError ``settings.invalid`` unless the gateway is local or uses TLS."""
    if not url.startswith("http+unix:///"):
        _require_encrypted_url(url, setting, encrypted="https", plain="http")


def require_encrypted_database(url: str, setting: str) -> None:
    """Raise ConfigError ``settings.invalid`` unless the database is local or uses TLS.

    A remote database needs ``sslmode=verify-full``.
    """
    try:
        parts = make_url(url)
    except ArgumentError:
        raise ConfigError("settings.invalid", f"{setting}: not a database URL", field=setting) from None
    named = [parts.host or ""]
    for name in _HOST_PARAMETERS:
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
