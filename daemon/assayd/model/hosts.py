"""The canonical form of host names, used in lists and comparisons.

Names are folded (lowercase, ASCII form, no trailing dot) before any comparison. An address in any notation,
such as ``127.1``, ``0x7f000001`` or ``[::1]``, isn't accepted as a name.
"""

from __future__ import annotations

import re

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MOST_CHARACTERS = 253


def fold_host(text: str) -> str:
    """Return a host name in canonical form.

    Raises: ValueError, with the reason, if the string isn't an ASCII host name.
    """
    if not text.isascii():
        raise ValueError(f"{text!a} isn't ASCII; write it as xn--…")
    name = text.removesuffix(".").lower()
    if is_address(name):
        raise ValueError(f"{text!a} is an address, not a name")
    if len(name) > _MOST_CHARACTERS or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError(f"{text[:_MOST_CHARACTERS]!a} isn't a host name")
    return name


def normalize_entry(text: str) -> str:
    """Return an allowlist entry in canonical form: a name, or a dot and a name (for all subdomains).

    A non-ASCII name is converted to its ASCII form if IDNA 2003 and 2008 agree on that form.

    Raises: ValueError, with the reason.
    """
    dot, name = ("." if text.startswith(".") else ""), text.removeprefix(".")
    if not name.isascii():
        name = _encode_ascii(name)
    return dot + fold_host(name)


def is_address(text: str) -> bool:
    """Return whether a resolver would parse the text as an address (brackets, colons or a final number)."""
    return text.startswith("[") or text.count(":") > 1 or bool(_NUMBER.fullmatch(text.rpartition(".")[2]))


def entry_covers(entry: str, name: str) -> bool:
    """Return whether an entry allows a name, or all names of another entry. Both must be folded.

    ``.example.org`` covers ``a.example.org`` and ``.a.example.org``, but not ``example.org``.
    """
    return name == entry or (entry.startswith(".") and name.endswith(entry))


def _encode_ascii(name: str) -> str:
    try:
        plain = name.encode("idna").decode("ascii")
        agreed = plain.encode("ascii").decode("idna") == name.lower().removesuffix(".")
    except UnicodeError:
        raise ValueError(f"{name!r} isn't a host name") from None
    if not agreed:
        # IDNA 2008 keeps "ß" as a letter, but IDNA 2003 maps it to "ss": two different hosts.
        raise ValueError(f"{name!r} is ambiguous; write it in ASCII (xn--…)")
    return plain
