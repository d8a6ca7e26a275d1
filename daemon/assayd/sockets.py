"""Opens the listening sockets.

The API's socket is passed by systemd, or opened by the daemon, which sets the permissions before the first
use. The optional socket for metrics is a loopback port.
"""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import ExitStack
from pathlib import Path

from assayd.errors import ConfigError

FIRST_PASSED_FD = 3
BACKLOG = 4096
"""The maximum number of connections that wait to be accepted. Further clients can't connect."""


def listen_unix(path: Path, *, mode: int, group: str | None) -> socket.socket:
    """Return a listening Unix socket: the socket that systemd passed, or a new one.

    Raises: ConfigError ``socket.taken`` if another daemon answers on the socket, ``socket.unusable`` for
    other failures.
    """
    if is_socket_activated():
        return _adopt_systemd_socket()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        _remove_stale_socket(path)
        return _bind(path, mode, group)
    except OSError as problem:
        message = f"can't listen on {path}: {problem.strerror}"
        raise ConfigError("socket.unusable", message) from problem


def listen_loopback(address: tuple[str, int]) -> socket.socket:
    """Return a listening TCP socket.

    Raises: ConfigError ``metrics.unusable``, if the address can't be used.
    """
    host, port = address
    server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(address)
        server.listen(BACKLOG)
    except OSError as problem:
        server.close()
        message = f"can't listen on {host}, port {port}, for metrics: {problem.strerror}"
        raise ConfigError("metrics.unusable", message) from problem
    server.setblocking(False)
    return server


def is_socket_activated() -> bool:
    """Return whether systemd passed the socket (sd_listen_fds(3)). Such a socket outlives this process."""
    return os.environ.get("LISTEN_PID") == str(os.getpid()) and os.environ.get("LISTEN_FDS") == "1"


def _adopt_systemd_socket() -> socket.socket:
    passed = socket.socket(fileno=FIRST_PASSED_FD)
    passed.setblocking(False)
    os.set_inheritable(FIRST_PASSED_FD, False)
    return passed


def _remove_stale_socket(path: Path) -> None:
    """Remove the socket of an exited daemon, if there is one.

    Raises: ConfigError ``socket.taken``, if a process listens on it; ``socket.unusable``, if the path isn't a
    socket.
    """
    if not path.is_socket():
        if path.exists():
            raise ConfigError("socket.unusable", f"{path} exists, but isn't a socket")
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    message = f"another daemon answers on {path}; stop it, or set another socket"
    raise ConfigError("socket.taken", message, retryable=True)


def _bind(path: Path, mode: int, group: str | None) -> socket.socket:
    with ExitStack() as undo:
        server = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        server.setblocking(False)
        _bind_private(server, path)
        undo.callback(path.unlink, missing_ok=True)
        if group is not None:
            _set_group(path, group)
        path.chmod(mode)
        server.listen(BACKLOG)
        undo.pop_all()
    return server


def _bind_private(server: socket.socket, path: Path) -> None:
    """Bind the socket so that no other user can connect before the permissions are set."""
    before = os.umask(0o177)
    try:
        server.bind(str(path))
    finally:
        os.umask(before)


def _set_group(path: Path, group: str) -> None:
    try:
        shutil.chown(path, group=group)
    except LookupError as problem:
        raise ConfigError("socket.unusable", f"group {group!r} doesn't exist") from problem
