"""What an operator may set of a gateway and of a node, beyond what a daemon has."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from assayd.errors import ConfigError
from assayd.settings import Count, LogSettings, RootSettings, Settings, load
from assayd_cluster.documents import MOST_CAPACITY

GATEWAY_FILE = Path("/etc/assayd/gateway.toml")
NODE_FILE = Path("/etc/assayd/node.toml")
NODE_PREFIX = "ASSAYD_NODE_"
MOST_SECRET_BYTES = 64 * 2**10


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BundleSettings(_Section):
    """Where bundles lie."""

    kind: Literal["directory", "s3"] = Field(
        "directory", description="A shared directory, or object storage."
    )
    directory: Path | None = Field(
        None,
        description="Shared directory (directory); unset: below the state directory, for one gateway alone.",
        examples=["/srv/assayd/artifacts"],
    )
    endpoint: str | None = Field(
        None, description="Address of the object storage (s3).", examples=["https://s3.example.org"]
    )
    bucket: str = Field("assayd", description="Bucket (s3).")
    region: str = Field("us-east-1", description="Region (s3).")
    access_key_file: Path | None = Field(None, description="File with the access key's id (s3).")
    secret_key_file: Path | None = Field(None, description="File with the secret key (s3).")
    ca_file: Path | None = Field(None, description="Certificates that its server is checked against (s3).")


class ClusterSettings(_Section):
    """What makes a daemon a gateway."""

    database_url_file: Path | None = Field(
        None,
        description="File with the SQLAlchemy URL of PostgreSQL.",
        examples=["/etc/assayd/database-url"],
    )
    database_mb: Count = Field(
        10_000,
        description="What submissions of all tenants may take in the database while they wait for their "
        "verdicts; none may hold more of that than is left.",
    )
    broker_url_file: Path | None = Field(
        None, description="File with the AMQP URL of RabbitMQ.", examples=["/etc/assayd/broker-url"]
    )
    broker_ca_file: Path | None = Field(None, description="Certificates that the broker is checked against.")
    broker_management_url_file: Path | None = Field(
        None,
        description="File with the URL of RabbitMQ's management API, as an administrator: each node's "
        "token then comes with its own broker account. Unset: all nodes share one account.",
        examples=["/etc/assayd/broker-management-url"],
    )
    queue: str = Field("assayd.attempts", description="Queue of attempts; of one cluster, one.")
    longest_run_h: Count = Field(
        6, description="A node that has had an attempt in hand for so many hours counts as having lost it."
    )
    node_capacity: Annotated[Count, Field(le=MOST_CAPACITY)] = Field(
        64,
        description="Attempts that a node may have in hand at once; a larger capacity counts as this.",
    )
    listen: str | None = Field(
        None,
        description="Address and port for clients and nodes, with TLS; unset: the Unix socket alone.",
        examples=["0.0.0.0:8443"],
    )
    certificate_file: Path | None = Field(None, description="Certificate chain of that address, PEM.")
    key_file: Path | None = Field(None, description="Its key, PEM, readable by the gateway alone.")
    bundles: BundleSettings = BundleSettings()


class GatewaySettings(Settings):
    """All settings of a gateway: those of a daemon, and how it is joined to others."""

    cluster: ClusterSettings = ClusterSettings()


class NodeSettings(RootSettings):
    """All settings of a node's worker."""

    name: str = Field(
        default_factory=socket.gethostname,
        pattern=r"^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$",
        description="Name of the node, to which its token is bound; unset: the host's.",
        examples=["node-1"],
    )
    gateway: str = Field(
        "http+unix:///run/assayd/gateway.sock",
        description="Address of a gateway: https://HOST:PORT, or http+unix://PATH.",
    )
    token_file: Path | None = Field(None, description="File with the node's token.")
    ca_file: Path | None = Field(None, description="Certificates that the gateway is checked against.")
    broker_url_file: Path | None = Field(None, description="File with the AMQP URL of RabbitMQ.")
    broker_ca_file: Path | None = Field(None, description="Certificates that the broker is checked against.")
    queue: str = Field("assayd.attempts", description="Queue of attempts; of one cluster, one.")
    socket: Path = Field(Path("/run/assayd/assayd.sock"), description="Socket of the daemon on this host.")
    capacity: Annotated[Count, Field(le=MOST_CAPACITY)] = Field(
        4, description="Attempts that this node has in hand at once."
    )
    log: LogSettings = LogSettings()


def load_gateway_settings() -> GatewaySettings:
    """Read file and environment of a gateway. Raises: ConfigError ``settings.invalid``."""
    return load(GatewaySettings, GATEWAY_FILE)


def load_node_settings() -> NodeSettings:
    """Read file and environment of a node. Raises: ConfigError ``settings.invalid``."""
    return load(NodeSettings, NODE_FILE, NODE_PREFIX)


def read_secret(path: Path | None, setting: str) -> str:
    """Return the one line of a file that holds a secret. Raises: ConfigError ``settings.invalid``."""
    if path is None:
        raise ConfigError("settings.invalid", f"{setting}: name the file that holds it", field=setting)
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MOST_SECRET_BYTES).strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError("settings.invalid", f"{setting}: {path} cannot be read: {problem}") from problem
    if not text or "\n" in text:
        message = f"{setting}: {path} holds {len(text.splitlines())} lines, and has to hold one"
        raise ConfigError("settings.invalid", message, field=setting)
    return text
