"""Single values of settings: validators of numbers, modes, groups and addresses, and default locations."""

from __future__ import annotations

import grp
import ipaddress
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

NEAR = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
"""Suffixes of names that public name servers don't resolve."""


def reject_bool(value: object) -> object:
    """Return the value unless it is a boolean, which pydantic would convert.

    Raises: ValueError, if it is a boolean.
    """
    if isinstance(value, bool):
        raise ValueError("must be a number")  # noqa: TRY004 - pydantic turns only ValueError into a problem
    return value


def parse_octal(value: object) -> object:
    """Parse a string as an octal number, as chmod does. Return other values unchanged.

    Raises: ValueError, if the string isn't an octal number.
    """
    if not isinstance(value, str):
        return value
    try:
        return int(value, 8)
    except ValueError:
        raise ValueError(f"{value!r} isn't an octal mode, e.g. 0660") from None


def require_known_group(name: str) -> str:
    """Return the name of a group. Raises: ValueError, if the group doesn't exist."""
    try:
        grp.getgrnam(name)
    except KeyError:
        raise ValueError(f"group {name!r} doesn't exist") from None
    return name


def require_loopback(text: str) -> str:
    """Return the address. Raises: ValueError, unless it is a loopback address with a port."""
    host, port = split_address(text)
    try:
        own = ipaddress.ip_address(host).is_loopback
    except ValueError:
        own = False
    if not own or port > 65535:
        raise ValueError(f"{text!r} isn't a loopback address with a port, e.g. 127.0.0.1:9464 or [::1]:9464")
    return text


def reject_public_http(url: str | None) -> str | None:
    """Return the URL, or None for None. Raises: ValueError, if it is a plain HTTP URL of a public host.

    Names aren't resolved; a name with a dot is treated as public, unless it has a local suffix.
    """
    if url is None or not url.startswith("http://"):
        return url
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        near = not ipaddress.ip_address(host).is_global
    except ValueError:
        near = "." not in host or host.endswith(NEAR)
    if not near:
        raise ValueError(
            f"{url} would send key and prompts unencrypted to a public host: use https, or a private address"
        )
    return url


def split_address(text: str) -> tuple[str, int]:
    """Return the address and port in a string, or an empty address and 0 for an invalid string."""
    found = re.fullmatch(r"(?:\[([0-9a-f:]+)\]|([0-9.]+)):([0-9]{1,5})", text, re.ASCII | re.IGNORECASE)
    return (found[1] or found[2], int(found[3])) if found else ("", 0)


def get_default_state_dir() -> Path:
    """Return the default state folder of this user's daemon: the service manager's, if it created one."""
    if os.environ.get("STATE_DIRECTORY"):  # created by the service manager: systemd.exec(5)
        return Path(os.environ["STATE_DIRECTORY"])
    if os.geteuid() == 0:
        return Path("/var/lib/assayd")
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "assayd"


def get_default_socket_path() -> Path:
    """Return the default path of the socket of this user's daemon.

    It is in /run for root, and otherwise in the user's run-time folder, if that exists.
    """
    base = os.environ.get("XDG_RUNTIME_DIR")
    if os.geteuid() == 0 or not base:
        return Path("/run/assayd/assayd.sock")
    return Path(base) / "assayd" / "assayd.sock"


def get_default_run_dir() -> Path:
    """Return the default folder for data that is needed only while containers exist."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path("/run" if os.geteuid() == 0 or not base else base) / "assayd-oci"
