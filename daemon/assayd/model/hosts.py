"""Host names in the one form in which they are listed and compared.

A name is folded (lower case, ASCII form, no trailing dot) before anything looks at it. An address is never a
name, in whatever notation: ``127.1``, ``0x7f000001`` and ``[::1]`` are not.
"""

from __future__ import annotations

import re

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MOST_CHARACTERS = 253


def fold(text: str) -> str:
    """Return a host name in the form that is compared.

    Raises: ValueError, with the reason, for what isn't a host name in ASCII.
    """
    if not text.isascii():
        raise ValueError(f"{text!a} isn't ASCII; write it as xn--…")
    name = text.removesuffix(".").lower()
    if is_address(name):
        raise ValueError(f"{text!a} is an address, not a name")
    if len(name) > _MOST_CHARACTERS or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError(f"{text[:_MOST_CHARACTERS]!a} isn't a host name")
    return name


def fold_entry(text: str) -> str:
    """Return an entry of an allowlist: a name, or a leading dot and a name for all names below it.

    A name in other letters is taken in its ASCII form where the standards agree on that.

    Raises: ValueError, with the reason.
    """
    dot, name = ("." if text.startswith(".") else ""), text.removeprefix(".")
    if not name.isascii():
        name = _ascii(name)
    return dot + fold(name)


def is_address(text: str) -> bool:
    """Return whether a resolver would read an address: brackets, colons, or a number at its end."""
    return text.startswith("[") or text.count(":") > 1 or bool(_NUMBER.fullmatch(text.rpartition(".")[2]))


def covers(entry: str, name: str) -> bool:
    """Return whether an entry allows a name, or all that a narrower entry allows. Both are folded.

    ``.example.org`` covers ``a.example.org`` and ``.a.example.org``, not ``example.org``.
    """
    return name == entry or (entry.startswith(".") and name.endswith(entry))


def _ascii(name: str) -> str:
    try:
        plain = name.encode("idna").decode("ascii")
        agreed = plain.encode("ascii").decode("idna") == name.lower().removesuffix(".")
    except UnicodeError:
        raise ValueError(f"{name!r} isn't a host name") from None
    if not agreed:
        # "ß" is a letter of its own in today's names and was "ss" in those of 2003: two hosts.
        raise ValueError(f"{name!r} is ambiguous; write it in ASCII (xn--…)")
    return plain
