"""The trace context of a request (W3C Trace Context), parsed strictly.

Because callers control these headers, an invalid `traceparent` or `tracestate` is ignored. Source:
https://www.w3.org/TR/trace-context-2/, sections 3.2 and 3.3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_PARENT_CHARS = 128
MAX_STATE_CHARS = 512
MAX_STATE_MEMBERS = 32

_PARENT_PATTERN = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_KEY = r"[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}"
_MEMBER_PATTERN = re.compile(rf"({_KEY})=[ -+\--<>-~]{{0,255}}[!-+\--<>-~]")
_SAMPLED_FLAG = 0x01


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """A span to continue: its ids of 32 and 16 hex digits, and vendor-specific data (`state`)."""

    trace_id: str
    span_id: str
    sampled: bool
    state: str = ""

    @property
    def parent(self) -> str:
        """Return the value of the header `traceparent`."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"

    @property
    def text(self) -> str:
        """Return the context as one line, in the format that `parse_text` parses."""
        return f"{self.parent} {self.state}".rstrip()

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers `traceparent` and, if there is a state, `tracestate`."""
        state = {"tracestate": self.state} if self.state else {}
        return {"traceparent": self.parent, **state}


def parse_text(text: str | None) -> TraceContext | None:
    """Parse the output of `text`. Return None if it is missing or invalid."""
    parent, _, state = (text or "").partition(" ")
    return parse_headers([parent], [state] if state else [])


def parse_headers(parents: Sequence[str], states: Sequence[str] = ()) -> TraceContext | None:
    """Parse the headers `traceparent` and `tracestate`. Return None if they are invalid.

    A request with several `traceparent` headers is invalid. An invalid `tracestate` is ignored.
    """
    if len(parents) != 1 or len(parents[0]) > MAX_PARENT_CHARS:
        return None
    read = _PARENT_PATTERN.fullmatch(parents[0])
    if read is None:
        return None
    version, trace_id, span_id, flags, later = read.groups()
    if version == "ff" or (version == "00" and later is not None):
        return None
    if not int(trace_id, 16) or not int(span_id, 16):
        return None
    sampled = bool(int(flags, 16) & _SAMPLED_FLAG)
    return TraceContext(trace_id=trace_id, span_id=span_id, sampled=sampled, state=_join_state(states))


def _join_state(headers: Sequence[str]) -> str:
    """Return all `tracestate` members as one value, or "" if any member is invalid."""
    joined = ",".join(headers)
    if len(joined) > MAX_STATE_CHARS:
        return ""
    members = [member for each in joined.split(",") if (member := each.strip(" \t"))]
    read = [_MEMBER_PATTERN.fullmatch(member) for member in members]
    keys = {match[1] for match in read if match is not None}
    if len(members) > MAX_STATE_MEMBERS or len(keys) != len(members):
        return ""
    return ",".join(members)
