"""Listens for clients of other judges: on this host for the service's user, or for others by `secure`.

Most of these clients send no secret, so any process that can connect can run programs as this user.
Therefore, the kernel identifies the user of the peer on a loopback connection, and a socket's mode excludes
other users.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from assayd.errors import RequestError
from assayd_client import Target
from assayd_client.address import ServerChoice, find_daemon
from assayd_client.cli.own_user import SameUserHttpProtocol, build_server_config
from assayd_compat.app import build_service
from assayd_compat.languages import BY_NAME

CONNECTIONS = 2048
MIN_DESCRIPTORS = 8192
"""The needed number of open descriptors: one per connection, and one per running program."""
GRACE_S = 10
"""Seconds to wait for running programs at shutdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """An address to listen on: the `path` of a Unix socket, or `host` and `port`."""

    path: Path | None = None
    host: str = ""
    port: int = 0


def parse_listen_address(text: str, *, secure: bool = False) -> ListenAddress:
    """Parse ``HOST:PORT`` or ``unix:PATH``.

    Raises: RequestError ``usage``, if the text has another form, the host isn't a loopback address and
    `secure` is False, or a Unix socket is secure.
    """
    if text.startswith("unix:") and len(text) > len("unix:"):
        if secure:
            raise RequestError("usage", "--certificate is for HOST:PORT; a socket needs no TLS")
        return ListenAddress(path=Path(text.removeprefix("unix:")))
    host, found, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not found or not port.isdigit() or int(port) > 65535:
        raise RequestError("usage", f"--listen {text!r} isn't HOST:PORT or unix:PATH, e.g. 127.0.0.1:8080")
    if not secure and not _is_loopback(host):
        message = (
            f"--listen {text!r} isn't a loopback address. Anyone who reaches the port could run programs as "
            "you. Listen on loopback; to serve other machines, use TLS (--certificate and --key) and the "
            "tokens of a gateway (--server)"
        )
        raise RequestError("usage", message)
    return ListenAddress(host="127.0.0.1" if host == "localhost" else host, port=int(port))


def serve(
    daemon: Target,
    where: str,
    *,
    at_once: int,
    policies: Sequence[str],
    certificate: Path | None = None,
    key: Path | None = None,
) -> None:
    """Serve until the program ends. `policies` contains `LANGUAGE=NAME` pairs.

    With a certificate and its key, serve other hosts over TLS; callers then need a gateway's token.

    Raises: RequestError ``usage``, if an address or a file can't be used, or a language is unknown.
    """
    secure = _read_files(daemon, certificate, key)
    place, chosen = parse_listen_address(where, secure=secure is not None), parse_policies(policies)
    _raise_descriptor_limit()
    with open_listener(place) as listener:
        print(
            f"Serving SandboxFusion, Piston and Judge0 clients on {format_address(listener, secure)}",
            flush=True,
        )
        signal.signal(signal.SIGTERM, _exit_on_signal)
        try:
            if secure is not None:
                from assayd_compat.secure import serve_remote_hosts

                serve_remote_hosts(daemon, listener, secure, at_once=at_once, policies=chosen)
            else:
                app = build_service(daemon, at_once=at_once, policies=chosen)
                uvicorn.Server(_build_config(app, place)).run(sockets=[listener])
        finally:
            if place.path is not None:
                place.path.unlink(missing_ok=True)


def _build_config(app: Starlette, place: ListenAddress) -> uvicorn.Config:
    return build_server_config(
        app,
        http=SameUserHttpProtocol if place.path is None else "h11",
        limit_concurrency=CONNECTIONS,
        backlog=CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
    )


def _read_files(daemon: Target, certificate: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    """Return the certificate and its key, or None if neither is specified.

    Raises: RequestError ``usage``, if only one is specified, or if the daemon isn't a gateway.
    """
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise RequestError("usage", "name both --certificate and --key, or neither")
    if not isinstance(find_daemon(daemon), ServerChoice):
        message = "--certificate needs a gateway, whose tokens callers send; name it with --server"
        raise RequestError("usage", message)
    return certificate, key


def _is_loopback(host: str) -> bool:
    try:
        return ip_address("127.0.0.1" if host == "localhost" else host).is_loopback
    except ValueError:
        return False


def parse_policies(given: Sequence[str]) -> dict[str, str]:
    """Parse `LANGUAGE=NAME` pairs into profiles by language.

    Raises: RequestError ``usage``, if a language is unknown or a name is missing.
    """
    chosen = dict(each.partition("=")[::2] for each in given)
    for language, policy in chosen.items():
        if language not in BY_NAME or not policy:
            message = (
                f"--policy {language}={policy} isn't LANGUAGE=NAME; the languages are {', '.join(BY_NAME)}"
            )
            raise RequestError("usage", message)
    return chosen


def open_listener(place: ListenAddress) -> socket.socket:
    """Return a listening socket. A Unix socket has mode 0600 from the start.

    Raises: RequestError ``usage``, if the address can't be used.
    """
    if place.path is not None:
        return _listen_on_socket(place.path)
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((place.host, place.port))
        listener.listen(CONNECTIONS)
    except OSError as error:
        listener.close()
        message = f"--listen {place.host}:{place.port}: {error.strerror}; choose another port, or 0 for any"
        raise RequestError("usage", message) from error
    return listener


def format_address(listener: socket.socket, secure: object = None) -> str:
    """Return the address as text: a URL, or the path of the Unix socket."""
    name = listener.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"{'http' if secure is None else 'https'}://{host}:{name[1]}"


def _listen_on_socket(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        if path.is_socket() and not _has_listener(path):
            path.unlink()
        listener.bind(str(path))
        listener.listen(CONNECTIONS)
    except OSError as error:
        listener.close()
        raise RequestError("usage", f"--listen unix:{path}: {error.strerror}") from error
    finally:
        os.umask(before)
    return listener


def _has_listener(path: Path) -> bool:
    """Return whether a process listens on a Unix socket, so that the socket must not be replaced."""
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True


def _raise_descriptor_limit() -> None:
    """Raise the soft limit on open file descriptors to the needed number, but not above the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(MIN_DESCRIPTORS, hard)), hard))


def _exit_on_signal(_: int, __: FrameType | None) -> None:
    raise SystemExit(0)
