"""Starts the console on a loopback port, and prints a link with which one browser can log in."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType

import uvicorn

from assayd.errors import RequestError
from assayd_client import AsyncClient, Target
from assayd_client.cli.own_user import SameUserHttpProtocol, build_server_config
from assayd_console.app import build_console
from assayd_console.daemon import ConsoleDaemon
from assayd_console.guard import SessionStore

ADDRESS = "127.0.0.1"
CONNECTIONS = 64
GRACE_S = 1
"""Seconds that the shutdown waits for open pages."""


def serve(daemon: Target, *, port: int, link_file: Path | None) -> None:
    """Serve until the program ends. Raises: RequestError ``usage``, if the port is already in use."""
    sessions = SessionStore()
    with open_listener(port) as listener:
        taken = listener.getsockname()[1]
        links = LoginLinks(sessions, taken, link_file)
        hosts = frozenset({f"{ADDRESS}:{taken}"})  # Never localhost, because ::1 may belong to another user.
        app = build_console(
            ConsoleDaemon(AsyncClient(daemon)),
            sessions,
            hosts,
            after_login=links.renew_link if link_file else None,
        )
        config = build_server_config(
            app, http=SameUserHttpProtocol, limit_concurrency=CONNECTIONS, timeout_graceful_shutdown=GRACE_S
        )
        links.renew_link()
        if link_file is None and sys.stdin.isatty():
            signal.signal(
                signal.SIGTTIN, signal.SIG_IGN
            )  # In the background, reading fails, but must not stop the program.
            threading.Thread(target=links.renew_on_input, daemon=True).start()
        signal.signal(signal.SIGTERM, _exit_on_signal)  # The server re-raises the signal after its shutdown.
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            links.forget()


class LoginLinks:
    """The login link, which is printed and renewed on Enter, or written to a file and renewed after use."""

    def __init__(self, sessions: SessionStore, port: int, file: Path | None) -> None:
        self._sessions = sessions
        self._port = port
        self._file = file

    def renew_link(self) -> None:
        """Create a new login link, and print it or write it to the file."""
        link = f"http://{ADDRESS}:{self._port}/#{self._sessions.offer()}"
        if self._file is not None:
            _write_link(self._file, link)
        else:
            print(
                f"{link}\nThis link works once. Enter prints a new one, Ctrl+C ends the console.", flush=True
            )

    def renew_on_input(self) -> None:
        """Create a new login link for each line that the user enters."""
        with suppress(OSError):  # The terminal is gone, or the program runs in the background.
            for _ in sys.stdin:
                self.renew_link()

    def forget(self) -> None:
        """Remove the file with the login link, because the link has become invalid."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)


def _exit_on_signal(_: int, __: FrameType | None) -> None:
    raise SystemExit(0)


def open_listener(port: int) -> socket.socket:
    """Return a listening socket, whose early connections wait for the server. Raises: RequestError."""
    listener = socket.socket(socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
        listener.listen(CONNECTIONS)
    except OSError as error:
        listener.close()
        message = f"port {port} of {ADDRESS}: {error.strerror}; choose another with --port, or 0 for any"
        raise RequestError("usage", message) from error
    return listener


def _write_link(file: Path, link: str) -> None:
    """Write the link atomically to a file that only its owner can read. Raises: RequestError."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(link + "\n")
        fresh.replace(file)
    except OSError as error:
        raise RequestError("usage", f"--link-file {file}: {error.strerror}") from error
