"""The canonical form of host names and webhook URLs, used in lists, comparisons and requests.

Names are folded (lowercase, ASCII form, no trailing dot) before any comparison. An address in any notation,
such as ``127.1``, ``0x7f000001`` or ``[::1]``, isn't accepted as a name.

A URL is accepted only if all parsers interpret it in the same way. A path that a server could resolve to a
different path (because of dots, escapes, parameters or backslashes) is rejected, because it could bypass the
allowlist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER_PATTERN = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MAX_HOST_CHARS = 253


def fold_host(text: str) -> str:
    """Return a host name in canonical form.

    Raises: ValueError, with the reason, if the string isn't an ASCII host name.
    """
    if not text.isascii():
        raise ValueError(f"{text!a} isn't ASCII; write it as xn--…")
    name = text.removesuffix(".").lower()
    if is_address(name):
        raise ValueError(f"{text!a} is an address, not a name")
    if len(name) > _MAX_HOST_CHARS or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError(f"{text[:_MAX_HOST_CHARS]!a} isn't a host name")
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
    return (
        text.startswith("[")
        or text.count(":") > 1
        or bool(_NUMBER_PATTERN.fullmatch(text.rpartition(".")[2]))
    )


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


MOST_CHARS = 2048
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>[/?][!$-;=?-\[\]_a-z~]*)?",
    re.ASCII | re.IGNORECASE,
)
_AMBIGUOUS_PATTERN = re.compile(r"[%;]")
_PORT_BY_SCHEME = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookUrl:
    """A parsed URL. `host` is folded (an address has no brackets). `target` is the path with the query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def path(self) -> str:
        """Return the target without its query."""
        return self.target.partition("?")[0]

    @property
    def authority(self) -> str:
        """Return host and port in the form of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORT_BY_SCHEME[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Return the URL without path and query, which can contain secrets."""
        return f"{self.scheme}://{self.authority}"

    def covers(self, other: WebhookUrl) -> bool:
        """Return whether another URL equals this URL, or has the same origin and a path below its path."""
        below = self.path if self.path.endswith("/") else f"{self.path}/"
        return self.origin == other.origin and (other.path == self.path or other.path.startswith(below))


def parse_webhook_url(text: str) -> WebhookUrl:
    """Parse a URL. Raises: ValueError, with the reason."""
    if len(text) > MOST_CHARS:
        raise ValueError(f"the URL has {len(text)} characters; the limit is {MOST_CHARS}")
    found = _URL.fullmatch(text)
    if found is None:
        raise ValueError("use a plain ASCII URL: http(s)://HOST[:PORT]/PATH, without user name and fragment")
    scheme, target = found["scheme"].lower(), found["target"] or "/"
    if target.startswith("?"):
        target = f"/{target}"
    path = target.partition("?")[0]
    if _AMBIGUOUS_PATTERN.search(path) or {".", ".."} & set(path.split("/")):
        raise ValueError("its path has dots, escapes (%) or parameters (;), which servers read differently")
    port = int(found["port"]) if found["port"] else _PORT_BY_SCHEME[scheme]
    if not 0 < port < 2**16:
        raise ValueError(f"{port} isn't a valid port")
    return WebhookUrl(scheme=scheme, host=_normalize_host(found["host"].lower()), port=port, target=target)


def _normalize_host(text: str) -> str:
    return text.removeprefix("[").removesuffix("]") if is_address(text) else fold_host(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    """A message to one URL. `id` is the same for every delivery try. `origin` is the receiver."""

    id: str
    uid: int
    url: str
    origin: str
    body: str
    created_at: datetime
    next_try_at: datetime
    tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeliveredCount:
    """The number of messages with a failed delivery, and the time from which the oldest one has waited."""

    count: int
    oldest: datetime | None
