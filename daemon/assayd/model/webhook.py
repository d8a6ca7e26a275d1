"""The canonical form of webhook URLs, used in lists, comparisons and requests.

A URL is accepted only if all parsers interpret it in the same way. A path that a server could resolve to a
different path (because of dots, escapes, parameters or backslashes) is rejected, because it could bypass
the allowlist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from assayd.model.hosts import fold_host, is_address

MOST_CHARS = 2048
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>[/?][!$-;=?-\[\]_a-z~]*)?",
    re.ASCII | re.IGNORECASE,
)
_UNCLEAR = re.compile(r"[%;]")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookUrl:
    """A parsed URL. `host` is folded (an address has no brackets); `target` is the path with the query."""

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
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

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
    if _UNCLEAR.search(path) or {".", ".."} & set(path.split("/")):
        raise ValueError("its path has dots, escapes (%) or parameters (;), which servers read differently")
    port = int(found["port"]) if found["port"] else _PORTS[scheme]
    if not 0 < port < 2**16:
        raise ValueError(f"{port} isn't a valid port")
    return WebhookUrl(scheme=scheme, host=_normalize_host(found["host"].lower()), port=port, target=target)


def _normalize_host(text: str) -> str:
    return text.removeprefix("[").removesuffix("]") if is_address(text) else fold_host(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    """A message to one URL. `id` is the same for every delivery try; `origin` is the receiver."""

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
    """The number of messages with failed deliveries, and the time since which the oldest one waits."""

    count: int
    oldest: datetime | None
