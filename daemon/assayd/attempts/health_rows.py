"""Builds the rows of `doctor` that don't need the engine, with pure functions."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping

from assayd.model.health import HealthRow, HealthStatus


def identity_row(former: str | None, state_dir: str) -> HealthRow:
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


def policies_row(problem: str) -> HealthRow:
    """Return a row on whether the policies in use match the files; `problem` is the reason if not."""
    if not problem:
        return HealthRow(
            check="policies", status=HealthStatus.OK, detail="the profiles in use match the files"
        )
    detail = f"the files can't be loaded; the earlier profiles stay in use: {problem}"
    remedy = "correct the files and reload; the daemon can't start with these files"
    return HealthRow(check="policies", status=HealthStatus.WARN, detail=detail, remedy=remedy)


def kinds_row(missing: Mapping[str, str], left_out: Mapping[str, str]) -> HealthRow:
    """Return a row that reports whether all kinds can be used.

    `missing` maps purposes, e.g. kinds, to the packages that aren't installed; `left_out` maps kinds to the
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


def helpers_row(missing: Mapping[str, str]) -> HealthRow:
    """Return a row on whether the optional programs are installed; `missing` describes their uses."""
    if not missing:
        return HealthRow(
            check="helpers", status=HealthStatus.OK, detail="all optional programs are installed"
        )
    detail = "; ".join(f"{name} isn't installed: {without}" for name, without in missing.items())
    remedy = f"install {', '.join(missing)}, then restart the daemon"
    return HealthRow(check="helpers", status=HealthStatus.WARN, detail=detail, remedy=remedy)


def static_misses_row(misses: Counter[tuple[str, str]]) -> HealthRow:
    """Return a row with the runtime policy's findings that the static stages missed."""
    if not misses:
        return HealthRow(check="static misses", status=HealthStatus.OK, detail="none since the start")
    listed = ", ".join(f"{kind} {rule}: {count}" for (kind, rule), count in misses.most_common(10))
    [((kind, rule), _)] = misses.most_common(1)
    remedy = (
        f"report what these attempts do (`assay list --kind {kind} --rule {rule}`), because the static rules "
        "may lack a case; a restart of the daemon resets the count"
    )
    return HealthRow(check="static misses", status=HealthStatus.WARN, detail=listed, remedy=remedy)
