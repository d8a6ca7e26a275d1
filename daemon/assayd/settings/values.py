"""Reads single values of settings: numbers, modes, groups, addresses."""

from __future__ import annotations

import grp
import ipaddress
import re


def no_bool(value: object) -> object:
    """Refuse a truth value where a number is wanted; pydantic would take it for 0 or 1."""
    if isinstance(value, bool):
        raise ValueError("must be a number")  # noqa: TRY004 - pydantic turns only ValueError into a problem
    return value


def octal(value: object) -> object:
    """Read text as an octal number, as chmod does."""
    if not isinstance(value, str):
        return value
    try:
        return int(value, 8)
    except ValueError:
        raise ValueError(f"{value!r} is not an octal mode, e.g. 0660") from None


def known_group(name: str) -> str:
    """Return the name of a group that there is. Raises: ValueError."""
    try:
        grp.getgrnam(name)
    except KeyError:
        raise ValueError(f"there is no group {name!r}") from None
    return name


def loopback(text: str) -> str:
    """Return the text of a loopback address with a port. Raises: ValueError."""
    host, port = parted(text)
    try:
        own = ipaddress.ip_address(host).is_loopback
    except ValueError:
        own = False
    if not own or port > 65535:
        raise ValueError(f"{text!r} is not a loopback address with a port, e.g. 127.0.0.1:9464 or [::1]:9464")
    return text


def parted(text: str) -> tuple[str, int]:
    """Return address and port of a text; an empty address and 0 where it is none."""
    found = re.fullmatch(r"(?:\[([0-9a-f:]+)\]|([0-9.]+)):([0-9]{1,5})", text, re.ASCII | re.IGNORECASE)
    return (found[1] or found[2], int(found[3])) if found else ("", 0)
