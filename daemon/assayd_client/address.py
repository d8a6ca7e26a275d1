"""Determines the address of the daemon (a local socket or a gateway's URL) and why it was chosen.

Requests to gateways also need a token from a file, and verified TLS.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from assayd.errors import RequestError

if TYPE_CHECKING:
    from ssl import SSLContext

SYSTEM_SOCKET = Path("/run/assayd/assayd.sock")
HTTPS_PORT = 443
MAX_TOKEN_FILE_CHARS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressOptions:
    """The address options of a command line or program: a socket, or a server with token and CA files."""

    socket: str | Path | None = None
    server: str | None = None
    token_file: str | Path | None = None
    ca_file: str | Path | None = None


Target = str | Path | AddressOptions | None
"""A daemon, as the path of its socket or as an address; None selects the daemon from the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketChoice:
    """The path of the daemon's socket, and the source from which it was chosen."""

    path: Path
    source: str

    def __str__(self) -> str:
        return f"{self.path} ({self.source})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChoice:
    """The address of a gateway, the source from which it was chosen, and its token and CA files.

    Attributes:
        token_file: the file with the token that is sent with each request.
        ca_file: the file with trusted CA certificates; None uses the system's certificates.
    """

    host: str
    port: int
    source: str
    token_file: Path
    ca_file: Path | None = None

    @property
    def authority(self) -> str:
        """Return the host and the port as URLs and the Host header require."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == HTTPS_PORT else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"https://{self.authority} ({self.source})"


Address = SocketChoice | ServerChoice


def find_daemon(named: Target = None, environ: Mapping[str, str] = os.environ) -> Address:
    """Choose the daemon from the options, the environment, or the default socket, in this order.

    Raises: RequestError ``usage``, for both a socket and a server, a URL that isn't HTTPS, or a missing
        token.
    """
    options = named if isinstance(named, AddressOptions) else AddressOptions(socket=named)
    if options.socket and options.server:
        raise RequestError("usage", "--socket and --server name different daemons; use one of them")
    if options.server:
        return _build_server_choice(options.server, "--server", options, environ)
    _reject_unused_files(options, environ)
    if options.socket or not environ.get("ASSAY_SERVER"):
        return find_socket(str(options.socket) if options.socket else None, environ)
    if environ.get("ASSAY_SOCKET"):
        raise RequestError("usage", "ASSAY_SOCKET and ASSAY_SERVER name different daemons; unset one of them")
    return _build_server_choice(environ["ASSAY_SERVER"], "ASSAY_SERVER", options, environ)


def find_socket(named: str | None = None, environ: Mapping[str, str] = os.environ) -> SocketChoice:
    """Choose the daemon's socket: the option, `ASSAY_SOCKET`, or the default path, in this order."""
    if named:
        return SocketChoice(path=Path(named), source="--socket")
    if environ.get("ASSAY_SOCKET"):
        return SocketChoice(path=Path(environ["ASSAY_SOCKET"]), source="ASSAY_SOCKET")
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime and os.geteuid() != 0:
        own = Path(runtime, "assayd", "assayd.sock")
        if own.exists() or not SYSTEM_SOCKET.exists():
            return SocketChoice(path=own, source="the default of this user")
    return SocketChoice(path=SYSTEM_SOCKET, source="the default")


def _reject_unused_files(options: AddressOptions, environ: Mapping[str, str]) -> None:
    if (options.token_file or options.ca_file) and (options.socket or not environ.get("ASSAY_SERVER")):
        given = "--token-file" if options.token_file else "--ca-file"
        message = f"{given} applies only to a server; add --server URL"
        raise RequestError("usage", message)


def _build_server_choice(
    url: str, source: str, options: AddressOptions, environ: Mapping[str, str]
) -> ServerChoice:
    host, port = _parse_url(url, source)
    token_file = options.token_file or environ.get("ASSAY_TOKEN_FILE")
    if not token_file:
        message = f"{source} {url} needs a token; pass its file with --token-file or ASSAY_TOKEN_FILE"
        raise RequestError("usage", message)
    ca_file = options.ca_file or environ.get("ASSAY_CA_FILE")
    return ServerChoice(
        host=host,
        port=port,
        source=source,
        token_file=Path(token_file),
        ca_file=Path(ca_file) if ca_file else None,
    )


def _parse_url(url: str, source: str) -> tuple[str, int]:
    """Return the host and the port of a URL.

    Raises: RequestError ``usage``, if the URL isn't HTTPS or has more than a host and a port. Passwords,
    paths and queries aren't displayed.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, HTTPS_PORT if parts.port is None else parts.port
    except ValueError as error:
        raise RequestError("usage", f"{source} isn't a URL: {error}; write https://HOST[:PORT]") from error
    if parts.scheme != "https":
        scheme = parts.scheme if parts.scheme in {"http", "ws", "ftp"} else "unsupported scheme"
        message = f"{source} has {scheme}; a token is sent over https only: write https://HOST[:PORT]"
        raise RequestError("usage", message)
    more = parts.username is not None or parts.path not in {"", "/"} or parts.query or parts.fragment
    if not host or more or not port or not (host.isascii() and host.isprintable() and " " not in host):
        message = f"{source} must contain only a host and a port, in ASCII; write https://HOST[:PORT]"
        raise RequestError("usage", message)
    return host, port


def build_authorization_header(server: ServerChoice) -> str:
    """Return the value of the Authorization header.

    The token file is read for each request, because it may change.
    """
    return f"Bearer {read_token(server.token_file)}"


def require_usable_files(server: ServerChoice) -> None:
    """Ensure that the token and CA files of a server are usable, by reading them once.

    Raises: RequestError ``usage``, if one of the files can't be used.
    """
    read_token(server.token_file)
    get_tls_context(server)


def read_token(path: Path) -> str:
    """Return the token in a file that is private to the caller.

    Raises: RequestError ``usage``, if the file isn't private or doesn't contain a token. Error messages never
    contain the file's content.
    """
    try:
        # Non-blocking, because opening a pipe without a writer would wait.
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(opened, encoding="ascii") as file:
            _require_private_file(path, os.fstat(file.fileno()))
            token = file.read(MAX_TOKEN_FILE_CHARS).strip()
    except OSError as error:
        raise RequestError("usage", f"token file {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable() or " " in token:
        raise RequestError("usage", f"token file {path}: it must hold one word, the token")
    return token


def _require_private_file(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise RequestError("usage", f"token file {path} isn't a regular file")
    if found.st_uid != os.geteuid():
        raise RequestError("usage", f"token file {path} belongs to another user; use a file that you own")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = stat.S_IMODE(found.st_mode)
        raise RequestError("usage", f"token file {path}: its mode is {mode:04o}; chmod 600 {path}")


def get_tls_context(server: ServerChoice) -> SSLContext:
    """Return a TLS context for a server.

    It requires TLS 1.2 or later, and verifies the certificate and the host name.

    Raises: RequestError ``usage``, if the file of certificates can't be read.
    """
    import ssl  # loads slowly, and most clients use a socket

    try:
        return _create_context(server.ca_file)
    except OSError as error:
        why = "it holds no certificates" if isinstance(error, ssl.SSLError) else error.strerror
        raise RequestError("usage", f"--ca-file {server.ca_file}: {why}") from error


@lru_cache(maxsize=4)
def _create_context(ca_file: Path | None) -> SSLContext:
    import ssl

    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
