"""The health and identity of the daemon for `assay doctor` and the API."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class HealthStatus(StrEnum):
    """The result of a health check."""

    OK = "ok"
    """The check passed."""
    WARN = "warn"
    """The daemon serves, but an operator should look."""
    FAIL = "fail"
    """The daemon doesn't serve, or not safely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRow:
    """One health check. `remedy` is the required action, or "" if no action is needed.

    `took_s` is the duration of the check in seconds, set only if the duration is noticeable.
    """

    check: str
    status: HealthStatus
    detail: str
    remedy: str = ""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonFacts:
    """The daemon's identity and state folder. `database_in_state` is true if it contains the database."""

    daemon_id: str
    version: str
    state_dir: str
    database_in_state: bool
