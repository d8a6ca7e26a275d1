"""The health and identity of the daemon, and the rows of `assay doctor` about facts that need no engine."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
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


def build_identity_row(former: str | None, state_dir: str) -> HealthRow:
    """Return a row on whether the state directory is a copy of another daemon's directory, `former`."""
    if former is None:
        return HealthRow(check="identity", status=HealthStatus.OK, detail="the state directory isn't a copy")
    detail = (
        f"the state directory is a copy of that of daemon {former}, whose containers this "
        "daemon doesn't remove"
    )
    remedy = (
        f"to keep the copy, run `ASSAYD_STATE_DIR={shlex.quote(state_dir)} assayd --acknowledge-copy` as the "
        "daemon's user and restart; if the other daemon no longer exists, remove its containers manually"
    )
    return HealthRow(check="identity", status=HealthStatus.WARN, detail=detail, remedy=remedy)


def build_policies_row(problem: str) -> HealthRow:
    """Return a row on whether the policies in use match the files. `problem` is the reason if not."""
    if not problem:
        return HealthRow(
            check="policies", status=HealthStatus.OK, detail="the profiles in use match the files"
        )
    detail = f"the files can't be loaded; the earlier profiles stay in use: {problem}"
    remedy = "correct the files and reload; the daemon can't start with these files"
    return HealthRow(check="policies", status=HealthStatus.WARN, detail=detail, remedy=remedy)


def build_kinds_row(missing: Mapping[str, str], left_out: Mapping[str, str]) -> HealthRow:
    """Return a row that reports whether all kinds can be used.

    `missing` maps purposes, e.g. kinds, to packages that aren't installed. `left_out` maps kinds to the
    policies that no file defines.
    """
    if left_out:
        detail = "; ".join(f"{kind} isn't served: no policy {policy}" for kind, policy in left_out.items())
        remedy = "put the policy's file into a folder of `policy_folders`, then restart the daemon"
        return HealthRow(check="kinds", status=HealthStatus.FAIL, detail=detail, remedy=remedy)
    if not missing:
        return HealthRow(check="kinds", status=HealthStatus.OK, detail="all are installed")
    detail = "not installed: " + ", ".join(f"{kind} ({package})" for kind, package in missing.items())
    remedy = "install the whole package if you need them"
    return HealthRow(check="kinds", status=HealthStatus.WARN, detail=detail, remedy=remedy)


def build_helpers_row(missing: Mapping[str, str]) -> HealthRow:
    """Return a row on whether the optional programs are installed. `missing` describes their uses."""
    if not missing:
        return HealthRow(
            check="helpers", status=HealthStatus.OK, detail="all optional programs are installed"
        )
    detail = "; ".join(f"{name} isn't installed: {without}" for name, without in missing.items())
    remedy = f"install {', '.join(missing)}, then restart the daemon"
    return HealthRow(check="helpers", status=HealthStatus.WARN, detail=detail, remedy=remedy)


def build_static_misses_row(misses: Counter[tuple[str, str]]) -> HealthRow:
    """Return a row that counts policy violations by kind and rule that only the run revealed."""
    if not misses:
        return HealthRow(check="static misses", status=HealthStatus.OK, detail="none since the start")
    listed = ", ".join(f"{kind} {rule}: {count}" for (kind, rule), count in misses.most_common(10))
    [((kind, rule), _)] = misses.most_common(1)
    remedy = (
        f"report what these attempts do (`assay list --kind {kind} --rule {rule}`), because the static rules "
        "may lack a case; a restart of the daemon resets the count"
    )
    return HealthRow(check="static misses", status=HealthStatus.WARN, detail=listed, remedy=remedy)
