"""Adds the requirements of gateways to requests: a token from a file, and verified TLS."""

from __future__ import annotations

import os
import ssl
import stat
from functools import lru_cache
from pathlib import Path

from assayd.errors import RequestError
from assayd_client.address import ServerChoice

TOKEN_CHARS = 4096


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
    """Return the token in a file that is private to the caller. Raises: RequestError ``usage``.

    Error messages never contain the file's content.
    """
    try:
        # Non-blocking, because opening a pipe without a writer would wait.
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(opened, encoding="ascii") as file:
            _require_private_file(path, os.fstat(file.fileno()))
            token = file.read(TOKEN_CHARS).strip()
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


def get_tls_context(server: ServerChoice) -> ssl.SSLContext:
    """Return a TLS context for a server.

    It requires TLS 1.2 or later, and verifies the certificate and the host name.

    Raises: RequestError ``usage``, if the file of certificates can't be read.
    """
    try:
        return _create_context(server.ca_file)
    except OSError as error:
        why = "it holds no certificates" if isinstance(error, ssl.SSLError) else error.strerror
        raise RequestError("usage", f"--ca-file {server.ca_file}: {why}") from error


@lru_cache(maxsize=4)
def _create_context(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
