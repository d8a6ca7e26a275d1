"""Finds a provider's or a webhook's key in the environment or in a file that other users can't read.

Error messages never contain a key, only its expected location.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from assayd.errors import ConfigError

MAX_BYTES = 4096
_PR_SET_DUMPABLE = 4
NONE = "none"
"""The placeholder for a server that needs no key, because the libraries require one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderKey:
    """A provider's API key, and the location from which it was read."""

    text: str = field(repr=False)
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySource:
    """The configured location of a key. `usual` is the vendor's variable, only for its server.

    `section` is the section of the settings that configures the key.
    """

    variable: str | None = None
    file: Path | None = None
    usual: str | None = None
    section: str = "repair.providers"


def find_key(name: str, place: KeySource, environment: Mapping[str, str]) -> ProviderKey:
    """Return a provider's key, or the placeholder `NONE` if no location is configured.

    For a server other than the vendor's, use only an explicitly configured key.

    Raises: ConfigError ``repair.key`` (for other sections, the section's own code), if the key is missing
    from its configured location or other users can read it.
    """
    owner = f"{place.section}.{name}"
    if place.file is not None:
        return ProviderKey(
            text=_check_key(_read_key_file(owner, place.file), owner, place.file), source=str(place.file)
        )
    variable = place.variable or place.usual
    if variable is None:
        return ProviderKey(text=NONE, source="no key")
    found = environment.get(variable, "").strip()
    if not found:
        message = f"no key: the environment variable {variable} isn't set, and no file is named"
        raise _key_error(owner, message)
    return ProviderKey(text=_check_key(found, owner, f"${variable}"), source=f"${variable}")


def make_environment_unreadable() -> None:
    """Prevent other processes of the same user from reading this process's environment with its keys.

    The environment of a process stays in its memory, even if it is removed from `os.environ` later. This
    function blocks access to ``/proc/PID/environ`` and ``/proc/PID/mem``, and disables core dumps.

    Raises: ConfigError ``repair.key``, if the kernel refuses this.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise ConfigError("repair.key", f"can't hide the environment: {os.strerror(ctypes.get_errno())}")


def _read_key_file(owner: str, path: Path) -> str:
    """Return the key in a file: a regular file of this user or root, unreadable for group and others.

    A file that root's group can read is accepted, because systemd passes credentials in this way.

    Raises: ConfigError, if the file can't be read or other users can read it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as problem:
        raise _key_error(owner, f"no key: {path}: {problem.strerror}") from problem
    try:
        facts = os.fstat(descriptor)
        others = stat.S_IMODE(facts.st_mode) & (0o037 if facts.st_gid == 0 else 0o077)
        if not stat.S_ISREG(facts.st_mode):
            raise _key_error(owner, f"{path} is not a regular file")
        if others or facts.st_uid not in {0, os.geteuid()}:
            mode = f"{stat.S_IMODE(facts.st_mode):04o}"
            message = (
                f"{path} (mode {mode}, owner {facts.st_uid}) must be readable only by the daemon's "
                "user: chown it, chmod 0600"
            )
            raise _key_error(owner, message)
        return os.read(descriptor, MAX_BYTES + 1).decode("utf-8", "replace").strip()
    finally:
        os.close(descriptor)


def _check_key(text: str, owner: str, where: object) -> str:
    """Return the key if it is valid in an HTTP header, because libraries include invalid keys in errors.

    Raises: ConfigError, if the key is empty, too long or not one word of printable ASCII.
    """
    if not text or len(text) > MAX_BYTES or not (text.isascii() and text.isprintable()) or " " in text:
        raise _key_error(owner, f"{where} must hold a key: one word of printable ASCII")
    return text


def _key_error(owner: str, message: str) -> ConfigError:
    return ConfigError(f"{owner.partition('.')[0]}.key", f"{owner}: {message}", field=owner)
