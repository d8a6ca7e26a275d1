"""The daemon's health and identity, as `assay doctor` and the API show them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """What one check of the daemon's health came to."""

    OK = "ok"
    """As it should be."""
    WARN = "warn"
    """It serves, but an operator should look."""
    FAIL = "fail"
    """It does not serve, or not safely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRow:
    """One check of the daemon's health; `remedy` is what to do, empty when nothing is.

    `took_s` is how long it took, where that is more than a moment.
    """

    check: str
    status: Health
    detail: str
    remedy: str = ""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonFacts:
    """Who a daemon is and where its state lies; `database_in_state` unless the database is elsewhere."""

    daemon_id: str
    version: str
    state_dir: str
    database_in_state: bool
