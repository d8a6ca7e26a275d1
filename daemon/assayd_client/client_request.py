"""One request of a client, before it is sent, and how long the answer of it may take."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Query = Sequence[tuple[str, str]]

PATIENCE_S = 30.0
"""How long an answer may take beyond the time that was asked for."""
BATCH_S = 300.0
"""How long the end of a batch may take to be taken in."""
SILENCE_S = 60.0
"""How long an event stream may be silent, heartbeats included, before it counts as lost."""
GARBAGE_S = 3600.0
"""How long a removal of many attempts may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest(Generic[T]):
    """One request, before it is sent; `reads` names the document that its answer is."""

    method: str
    path: str
    reads: Callable[[], type[T]] | None = None
    query: Query = ()
    document: Mapping[str, object] | None = None
    content: Iterable[bytes] | AsyncIterable[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0

    @property
    def timeout_s(self) -> float:
        """Return how long the answer may take."""
        return self.wait_s + PATIENCE_S

    def body(self) -> Any:
        """Return the body: bytes, or what gives them piece by piece."""
        if self.content is not None:
            return self.content
        return b"" if self.document is None else json.dumps(self.document, allow_nan=False).encode()

    def all_headers(self) -> dict[str, str]:
        """Return the headers, with what the body is."""
        return {"Content-Type": "application/json", **self.headers}

    def arguments(self) -> dict[str, Any]:
        """Return the request as the HTTP library wants it."""
        return {
            "method": self.method,
            "url": self.path,
            "params": list(self.query),
            "content": self.body() or None,
            "headers": self.all_headers(),
            "timeout": self.timeout_s,
        }
